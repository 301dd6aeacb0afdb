"""Weights that must not move."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam, AdamW

from snv.components.freezing import Frozen, Slowed, unmoved


@pytest.mark.parametrize(
    "optimizer", [partial(SGD, momentum=0.9), Adam, partial(Adam, weight_decay=5e-5), AdamW], ids=lambda o: str(o)[:60]
)
def test_frozen_weights_stay_bit_identical_under_any_optimiser(optimizer):
    torch.manual_seed(0)
    layer = nn.Linear(6, 8)
    mask = torch.arange(8) % 3 == 0
    moving = optimizer(layer.parameters(), lr=0.1)
    for step in range(12):
        if step == 6:  # frozen only after moments have built up
            frozen = Frozen([(layer.weight, mask), (layer.bias, mask)])
            before = [p.detach().clone() for p in layer.parameters()]
        moving.zero_grad()
        layer(torch.randn(5, 6)).square().sum().backward()
        moving.step()
        if step >= 6:
            frozen.restore()
    for now, old in zip(layer.parameters(), before, strict=True):
        assert torch.equal(now[mask], old[mask])
        assert not torch.equal(now[~mask], old[~mask])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_some_columns_of_a_row_may_be_frozen_and_others_not(dtype):
    torch.manual_seed(0)
    weight = torch.randn(4, 5, 3, 3).to(dtype).contiguous(memory_format=torch.channels_last)
    weight[0, 0, 0] = torch.tensor([-0.0, 0.0, 1e-40])
    mask = torch.rand(4, 5) < 0.5
    mask[0, 0] = True
    before = weight.clone()
    frozen = Frozen([(weight, mask)])
    weight.normal_()
    weight[0, 0, 1] = torch.tensor([float("nan"), float("inf"), 0.0])
    moved = weight.clone()
    frozen.restore()
    assert torch.equal(weight[mask], before[mask])
    assert bool(weight[0, 0, 0, 0].signbit()), "minus zero is minus zero"
    assert torch.equal(weight[~mask], moved[~mask])


@pytest.mark.parametrize("bias", [True, False])
def test_a_layer_that_does_not_move_passes_gradients_on_and_takes_none(bias):
    torch.manual_seed(0)
    layer, x = nn.Linear(6, 8, bias=bias), torch.randn(5, 6).requires_grad_()
    assert torch.equal(unmoved(layer, x), layer(x))
    unmoved(layer, x).square().sum().backward()
    assert all(p.grad is None for p in layer.parameters())
    through, x.grad = x.grad, None
    layer(x).square().sum().backward()
    assert torch.equal(through, x.grad)


def test_of_a_step_only_the_share_that_is_not_held_back_is_taken():
    torch.manual_seed(0)
    weight = torch.randn(4, 3, 2, 2).contiguous(memory_format=torch.channels_last).requires_grad_()
    bias, free = torch.randn(4, requires_grad=True), torch.randn(3, requires_grad=True)
    share = torch.rand(4, 3)
    share[0], share[1] = 0, 1
    slowed = Slowed([(weight, share), (bias, share[:, 0]), (free, torch.zeros(3))])
    optimizer = Adam([weight, bias, free], lr=0.1)
    for _ in range(3):
        before = [x.detach().clone() for x in (weight, bias, free)]
        sum(x.square().sum() for x in (weight, bias, free)).backward()
        slowed.remember()
        optimizer.step()
        stepped = [x.detach().clone() for x in (weight, bias, free)]
        slowed.restore()
        held = [share[..., None, None], share[:, 0], torch.zeros(3)]
        for now, old, new, back in zip((weight, bias, free), before, stepped, held, strict=True):
            torch.testing.assert_close(now.detach(), old + (new - old) * (1 - back))
        assert torch.equal(weight[1], before[0][1])
        assert torch.equal(weight[0], stepped[0][0])


def test_cleared_gradients_are_0_where_nothing_may_move_and_nowhere_else():
    layer = nn.Linear(6, 8)
    frozen = Frozen([(layer.weight, torch.arange(8) % 3 == 0)])
    frozen.clear_gradients()  # there are none yet
    layer(torch.ones(5, 6)).sum().backward()
    frozen.clear_gradients()
    assert (layer.weight.grad == 5.0 * (torch.arange(8) % 3 != 0)[:, None]).all()
    assert (layer.bias.grad == 5.0).all()

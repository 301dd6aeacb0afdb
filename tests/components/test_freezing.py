"""Weights that must not move."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam, AdamW

from snv.components.freezing import Frozen


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


def test_cleared_gradients_are_0_where_nothing_may_move_and_nowhere_else():
    layer = nn.Linear(6, 8)
    frozen = Frozen([(layer.weight, torch.arange(8) % 3 == 0)])
    frozen.clear_gradients()  # there are none yet
    layer(torch.ones(5, 6)).sum().backward()
    frozen.clear_gradients()
    assert (layer.weight.grad == 5.0 * (torch.arange(8) % 3 != 0)[:, None]).all()
    assert (layer.bias.grad == 5.0).all()

"""Which neurons are kept, and that kept weights stay bit-identical under any optimiser."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam, AdamW

from snv.errors import UserError
from snv.masks import Frozen, coverage_budget, select

LAYERS = torch.tensor([0] * 10 + [1] * 30 + [2] * 60)


def values(seed: int = 0) -> torch.Tensor:
    return torch.randn(100, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_without_a_layer_share_the_best_are_kept_and_one_of_every_layer():
    v = values() + 10 * (LAYERS == 2)
    mask = select(v, LAYERS, 20, layer_share=0.0)
    assert int(mask.sum()) == 20
    for layer in (0, 1):
        assert int(mask[layer == LAYERS].sum()) == 1
        assert mask[(v * (layer == LAYERS) - 100 * (layer != LAYERS)).argmax()]


def test_every_layer_gets_its_share():
    mask = select(values() + 10 * (LAYERS == 2), LAYERS, 40, layer_share=0.5)
    kept = [int(mask[layer == LAYERS].sum()) for layer in range(3)]
    assert kept[:2] == [2, 6]
    assert sum(kept) == 40


def test_the_selection_follows_the_values_not_their_order():
    order = torch.randperm(100, generator=torch.Generator().manual_seed(1))
    plain, shuffled = select(values(), LAYERS, 30), select(values()[order], LAYERS[order], 30)
    assert torch.equal(plain[order], shuffled)


def test_free_neurons_come_along_and_only_new_ones_count():
    free = torch.zeros(100, dtype=torch.bool)
    free[::2] = True
    mask = select(values(), LAYERS, 20, free=free)
    assert int((mask & ~free).sum()) == 20
    assert mask[free].all(), "what is frozen costs nothing"


def test_no_more_than_the_largest_size_the_best_free_ones_first():
    free = torch.zeros(100, dtype=torch.bool)
    free[::2] = True
    mask = select(values(), LAYERS, 20, layer_share=0.0, free=free, largest=45)
    assert int((mask & ~free).sum()) == 20
    assert int(mask.sum()) == 45
    kept, left_out = values()[mask & free], values()[~mask & free]
    assert (kept < left_out.max()).sum() <= 3, "one neuron of each layer is always kept, else the best"


def test_a_barred_neuron_is_never_chosen():
    barred = values() > values().median()
    assert not (select(values(), LAYERS, 40, barred=barred) & barred).any()


@pytest.mark.parametrize("layer_share", [0.0, 0.5])
def test_a_neuron_without_a_value_is_never_chosen(layer_share):
    v = values()
    v[::2] = torch.nan
    mask = select(v, LAYERS, 40, layer_share)
    assert int(mask.sum()) == 40
    assert not (mask & v.isnan()).any()


def test_more_neurons_than_have_a_value_are_refused():
    v = values()
    v[20:] = torch.nan
    with pytest.raises(UserError, match="30 neurons are to be chosen, but only 20 of 100 have a value"):
        select(v, LAYERS, 30)
    free = torch.arange(100) < 10
    with pytest.raises(UserError, match="20 neurons are to be chosen, but only 10 of 90 have a value"):
        select(v, LAYERS, 20, free=free)


def test_a_budget_as_large_as_the_network_keeps_everything():
    assert select(values(), LAYERS, 100).all()


def test_coverage_asks_for_as_few_as_hold_the_share():
    v = torch.tensor([5.0, 3.0, 1.0, 1.0, -4.0])
    assert [coverage_budget(v, share) for share in (0.4, 0.5, 0.8, 1.0)] == [1, 1, 2, 4]


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
    assert frozen.unchanged()
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
    assert not frozen.unchanged()
    frozen.restore()
    assert frozen.unchanged()
    assert torch.equal(weight[mask], before[mask])
    assert bool(weight[0, 0, 0, 0].signbit()), "minus zero is minus zero"
    assert torch.equal(weight[~mask], moved[~mask])


def test_a_single_changed_bit_is_noticed():
    weight = torch.randn(4, 3)
    frozen = Frozen([(weight, torch.tensor([True, False, True, False]))])
    weight[1] += 1
    assert frozen.unchanged()
    weight[2, 0] = torch.nextafter(weight[2, 0], torch.tensor(9.0))
    assert not frozen.unchanged()

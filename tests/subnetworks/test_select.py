"""Which neurons are kept, and that kept weights stay bit-identical under any optimiser."""

from __future__ import annotations

import pytest
import torch

from snv.errors import UserError
from snv.subnetworks.select import select

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

"""Few connections, drawn, ranked and grown where they may be."""

from __future__ import annotations

import pytest
import torch

from snv.components.sparsity import (
    all_but,
    at_random,
    disconnect,
    forget_moments,
    grown,
    highest,
    is_first_convolution,
    redraw_plastic,
)
from snv.networks import build_network
from snv.neurons import find_neurons, units_of
from snv.seeding import generator


def wired(name: str = "convnet", **options):
    body = build_network(name, (1, 8, 8), 0, **options).body
    neurons = find_neurons(body, torch.zeros(2, 1, 8, 8), include=["*"])
    return neurons, units_of(neurons)


def test_places_drawn_are_as_many_as_asked_for_and_all_equally_likely():
    places = torch.rand(4, 5, generator=generator(0)) < 0.6
    rng, times, draws = generator(1), torch.zeros(4, 5), 2000
    for _ in range(draws):
        chosen = at_random(places, 3, rng)
        assert int(chosen.sum()) == 3
        times += chosen
    assert not times[~places].any()
    rates = times[places] / draws
    assert (rates - 3 / int(places.sum())).abs().max() < 0.05
    assert torch.equal(at_random(places, 99, rng), places)


def test_the_highest_places_are_those_a_sort_finds_and_of_equal_ones_the_first():
    scores = torch.randn(6, 7, generator=generator(0)).round()
    places = torch.rand(6, 7, generator=generator(1)) < 0.7
    ranked = sorted((-float(scores[r, c]), r, c) for r, c in places.nonzero().tolist())
    for n in (0, 1, 5, 99):
        assert [tuple(x) for x in highest(scores, places, n).nonzero().tolist()] == sorted(
            (r, c) for _, r, c in ranked[:n]
        )


@pytest.mark.parametrize("n", [2, 5, 40])
def test_new_connections_lead_to_plastic_units_and_first_from_those_that_lead_nowhere(n):
    _, units = wired("mlp", hidden=[6, 8])
    c, stable = units.connections[1], units.mask(False, image=True, classes=True)
    stable[[0, 1, 6, 7, 8]] = True  # two of the first layer, three of the second
    existing = torch.zeros(8, 6, dtype=torch.bool)
    existing[:, 2] = True  # units 0 and 1 lead nowhere but are stable; 3, 4 and 5 are lonely
    new = grown(c, existing, n, stable, generator(0))
    assert int(new.sum()) == min(n, 5 * 5), "of 30 places towards plastic units 5 are taken"
    assert not (new & existing).any()
    assert not new[:3].any()
    lonely = new[:, 3:].any(0)
    assert int(lonely.sum()) == min(n, 3)


def test_where_all_units_are_stable_nothing_grows():
    _, units = wired("mlp", hidden=[6, 8])
    everyone = units.mask(True, image=True, classes=True)
    assert not grown(units.connections[1], torch.zeros(8, 6, dtype=torch.bool), 4, everyone, generator(0)).any()


def test_only_a_convolution_of_the_image_is_a_first_one():
    _, units = wired(width=3)
    assert [is_first_convolution(c, units) for c in units.connections] == [True, False, False, False]
    _, units = wired("mlp", hidden=[6, 8])
    assert not any(is_first_convolution(c, units) for c in units.connections)


def test_a_whole_kernel_is_cut():
    weight = torch.ones(2, 3, 2, 2)
    missing = torch.tensor([[True, False, False], [False, False, True]])
    disconnect(weight, missing)
    assert torch.equal(weight.sum((2, 3)), 4.0 * ~missing)


@pytest.mark.parametrize("kind", [torch.optim.Adam, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)])
def test_moments_of_some_rows_are_forgotten_and_of_others_not(kind):
    weights = torch.nn.Parameter(torch.ones(4, 3))
    optimizer = kind([weights])
    forget_moments(optimizer, weights, torch.tensor([1, 3]))  # none yet
    weights.square().sum().backward()
    optimizer.step()
    forget_moments(optimizer, weights, torch.tensor([1, 3]))
    moments = [x for x in optimizer.state[weights].values() if x.shape == weights.shape]
    assert moments
    for moment in moments:
        assert moment.bool().all(1).tolist() == [True, False, True, False]


def test_all_but_some_connections_and_free_units_stays_bit_identical():
    neurons, units = wired(width=3)
    moving = {c.name: torch.rand(c.weight.shape[:2], generator=generator(0)) < 0.5 for c in units.connections}
    free = torch.arange(units.n + 2) % 2 == 0
    frozen = all_but(units.connections, neurons, units, moving, free)
    owned = [owned for owned in neurons.owned if owned.role != "statistic"]
    before = [o.tensor.detach().clone() for o in owned]
    with torch.no_grad():
        for o in owned:
            o.tensor.add_(1)
    frozen.restore()
    for o, old in zip(owned, before, strict=True):
        may = moving[o.name.removesuffix(".weight")] if o.role == "weight" else free[units.of_neuron[o.owner]]
        assert torch.equal(o.tensor.detach()[~may], old[~may])
        assert torch.equal(o.tensor.detach()[may], old[may] + 1)


def test_plastic_weights_are_drawn_anew_and_nothing_else():
    neurons, units = wired(width=16)
    plastic = {c.name: torch.rand(c.weight.shape[:2], generator=generator(0)) < 0.5 for c in units.connections}
    free = torch.arange(units.n + 2) % 2 == 0
    before = {o.name: o.tensor.detach().clone().add_(0.5) for o in neurons.owned}
    with torch.no_grad():
        for o in neurons.owned:
            o.tensor.copy_(before[o.name])
    redraw_plastic(neurons, units, plastic, free, generator(1))
    for o in neurons.owned:
        now, old = o.tensor.detach(), before[o.name]
        may = plastic[o.name.removesuffix(".weight")] if o.role == "weight" else free[units.of_neuron[o.owner]]
        may = may if o.role != "statistic" else torch.zeros_like(may)
        assert torch.equal(now[~may], old[~may])
        if o.role == "weight":
            spread = (2 / (now.shape[1] * 9)) ** 0.5
            assert 0.8 < float(now[may].std()) / spread < 1.2
        elif o.role == "norm":
            assert (now[may] == float(o.attribute == "weight")).all()

"""The quadratic pull of weights back to their anchor."""

from __future__ import annotations

import torch

from snv.components.penalty import copied, held, restored, weighted_distance
from snv.networks import build_network


def test_the_distance_and_its_gradient_are_those_of_the_formula():
    rng = torch.Generator().manual_seed(0)
    now = {name: torch.randn(3, 2, generator=rng, requires_grad=True) for name in "ab"}
    anchor, importance = ({name: torch.rand(3, 2, generator=rng) for name in "ab"} for _ in range(2))
    (3 * weighted_distance(now, anchor, importance)).backward()
    expected = sum((importance[name] * (now[name] - anchor[name]) ** 2).sum() for name in "ab")
    torch.testing.assert_close(weighted_distance(now, anchor, importance), expected)
    for name in "ab":
        torch.testing.assert_close(now[name].grad, 6 * importance[name] * (now[name] - anchor[name]).detach())


def test_heads_and_norm_layers_are_held_if_they_are_wanted():
    network = build_network("convnet", (1, 8, 8), 0, width=2)
    network.add_head(2)
    everything = set(held(network, heads=True))
    assert everything == {name for name, _ in network.named_parameters()}
    assert everything - set(held(network, heads=False)) == {"heads.0.weight", "heads.0.bias"}
    assert set(held(network, heads=True, norm_layers=False)) < everything


def test_copied_weights_stand_still_and_restored_ones_have_the_layout_of_the_network():
    network = build_network("convnet", (1, 8, 8), 0, width=2).to(memory_format=torch.channels_last)
    weights = copied(held(network, heads=True))
    plain = {name: x.contiguous() for name, x in weights.items()}
    for name, x in restored(plain, network).items():
        assert torch.equal(x, weights[name]) and x.stride() == dict(network.named_parameters())[name].stride()
    with torch.no_grad():
        next(network.parameters()).add_(1)
    assert not torch.equal(next(iter(weights.values())), next(network.parameters()))

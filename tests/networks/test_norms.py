"""Norm state is taken and put back exactly, for every kind of norm layer."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from snv.networks import build_network
from snv.networks.layers import NORMS
from snv.networks.norms import load_norm, norm_state, use_instance_norm


def body(kind: type[nn.Module]) -> nn.Module:
    joint = {nn.GroupNorm: (2, 4), nn.LayerNorm: ((4, 3, 3),)}
    norm = kind(*joint[kind]) if kind in joint else kind(4, affine=True, track_running_stats=True)
    torch.manual_seed(0)
    for tensor in norm.state_dict().values():
        tensor.copy_(torch.rand(tensor.shape) * 9)
    return nn.Sequential(nn.Conv2d(1, 4, 3), norm)


@pytest.mark.parametrize("kind", NORMS, ids=lambda kind: kind.__name__)
def test_a_norm_state_is_a_copy_that_comes_back_bit_for_bit(kind):
    network = body(kind)
    state = norm_state(network)
    kept = {name: value.clone() for name, value in state.items()}
    assert {"1.weight", "1.bias"} <= set(state)
    assert not any(name.startswith("0.") for name in state)
    for tensor in network[1].state_dict().values():
        tensor.zero_()
    assert all(torch.equal(state[name], kept[name]) for name in kept)
    load_norm(network, state)
    assert all(torch.equal(value, kept[name]) for name, value in norm_state(network).items())


def test_with_instance_norm_an_image_is_answered_the_same_in_any_company_and_in_either_mode():
    network = build_network("resnet18", (3, 32, 32), 0, width=4).body
    use_instance_norm(network)
    kinds = [type(module) for module in network.modules()]
    assert (kinds.count(nn.BatchNorm2d), kinds.count(nn.InstanceNorm2d)) == (0, 20)
    images = torch.randn(5, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    together = network.train()(images)
    assert torch.equal(network.eval()(images), together)
    torch.testing.assert_close(network(images[:2]), together[:2])
    assert all(p.requires_grad for p in network.parameters())

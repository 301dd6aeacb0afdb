"""Heads, one per task, and networks with them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from snv.networks import NETWORKS, build_network
from snv.networks.head import Specialist, bytes_of, frozen_copy, n_parameters, n_units

SHAPES = {"resnet18": (3, 32, 32), "convnet": (1, 8, 8), "mlp": (1, 8, 8)}


def small(name: str, seed: int = 0):
    options = {"resnet18": {"width": 8}, "convnet": {"width": 8}, "mlp": {"hidden": [16, 16]}}[name]
    return build_network(name, SHAPES[name], seed, **options)


@pytest.mark.parametrize("name", NETWORKS)
def test_heads_are_joined_in_task_order(name):
    network = small(name).eval()
    network.add_head(3)
    network.add_head(2)
    images = torch.rand(4, *SHAPES[name])
    assert network.head_sizes == [3, 2]
    assert network.features(images).shape == (4, network.body.n_features)
    torch.testing.assert_close(network(images), torch.cat([network(images, task=0), network(images, task=1)], 1))


def test_a_head_depends_on_the_seed_and_its_first_class_only():
    eager, lazy = small("mlp"), small("mlp")
    eager.add_head(3)
    eager.add_head(2)
    fresh = lazy.fresh_head(3, 2)
    assert torch.equal(fresh.weight, eager.heads[1].weight)
    assert torch.equal(fresh.bias, eager.heads[1].bias)
    assert len(lazy.heads) == 0


def test_logits_without_a_head_are_refused():
    with pytest.raises(ValueError, match="add_head"):
        small("mlp")(torch.rand(1, 1, 8, 8))


def test_a_frozen_copy_learns_nothing_and_has_the_first_heads_only():
    network = small("convnet").train()
    network.add_head(3)
    network.add_head(2)
    copy = frozen_copy(network, 1)
    assert copy.head_sizes == [3]
    assert network.head_sizes == [3, 2]
    assert not copy.training and not any(p.requires_grad for p in copy.parameters())
    statistics = copy.body.bn1.running_mean.clone()
    copy(torch.rand(4, 1, 8, 8))
    assert torch.equal(copy.body.bn1.running_mean, statistics)


@pytest.mark.parametrize("task", [0, 1, None])
def test_a_specialist_answers_as_the_network_does(task):
    network = small("mlp")
    network.add_head(3)
    network.add_head(2)
    images = torch.rand(4, 1, 8, 8)
    assert torch.equal(Specialist(network, task)(images), network(images, task))


def test_bytes_count_parameters_and_buffers():
    assert bytes_of(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))) == 4 * (6 + 3) + 4 * 4 * 3 + 8


def test_units_are_the_rows_of_convolutions_and_linear_layers():
    body = nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.Linear(5, 7))
    assert n_units(body, nn.Linear(2, 4)) == 5 + 7 + 4
    assert n_parameters(nn.Linear(2, 4), nn.LayerNorm(3)) == 12 + 6

"""Neurons held at the response that says nothing."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from snv.networks import build_network
from snv.neurons.find import find_neurons
from snv.neurons.gates import ablated, mean_responses_to
from snv.neurons.silence import silent_responses


def lively(name, **options):
    """A body whose norm layers shift and scale every channel in a way of its own, with some images."""
    rng = torch.Generator().manual_seed(0)
    body = build_network(name, (3, 16, 16), 0, **options).body.eval()
    for module in body.modules():
        if isinstance(module, nn.BatchNorm2d):
            for tensor in (module.weight, module.bias, module.running_mean):
                nn.init.normal_(tensor, 0.5, generator=rng)
            nn.init.uniform_(module.running_var, 0.5, 2, generator=rng)
    return body, torch.randn(4, 3, 16, 16, generator=rng)


@pytest.mark.parametrize("name", ["resnet18", "convnet"])
@torch.no_grad()
def test_held_there_a_neuron_is_as_good_as_switched_off_in_its_norm_layer(name):
    body, images = lively(name, width=4)
    neurons = find_neurons(body, images, include=["*"])
    mask = torch.rand(neurons.n, generator=torch.Generator().manual_seed(1)) < 0.5
    means = mean_responses_to(body, neurons, [images])
    with ablated(neurons, mask, silent_responses(neurons, means)):
        held = body(images)
    with ablated(neurons, mask, means):
        at_means = body(images)
    for norm in neurons.norms:
        rows = norm.silent(mask)
        norm.module.weight[rows], norm.module.bias[rows] = 0, 0
    torch.testing.assert_close(held, body(images), rtol=1e-4, atol=1e-4)
    assert not torch.allclose(at_means, body(images), rtol=1e-2, atol=1e-2), "another game"


@torch.no_grad()
def test_without_a_norm_layer_it_is_zero():
    body = build_network("mlp", (1, 4, 4), 0, hidden=(5, 4)).body
    neurons = find_neurons(body, torch.randn(2, 1, 4, 4), include=["*"])
    assert silent_responses(neurons, torch.ones(neurons.n_responses)).eq(0).all()


@torch.no_grad()
def test_where_nothing_makes_it_silent_the_mean_stays():
    body, images = lively("convnet", width=4)
    body.bn1.weight[2] = 0  # answers its shift, whatever comes in
    body.bn2 = nn.GroupNorm(2, 4)
    neurons = find_neurons(body, images, include=["*"])
    means = mean_responses_to(body, neurons, [images])
    levels = silent_responses(neurons, means)
    assert levels[2] == means[2]
    torch.testing.assert_close(levels[4:8], means[4:8], rtol=0, atol=0)
    assert not torch.equal(levels[8:], means[8:])

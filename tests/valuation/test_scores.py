"""Simple scores, on networks where the answer is known."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from snv.errors import UserError
from snv.networks import build_network
from snv.neurons.find import find_neurons
from snv.valuation.neuron_game import NeuronGame
from snv.valuation.scores import SCORES


def game() -> NeuronGame:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    with torch.no_grad():
        model[0].weight[2] = 0  # a neuron that says nothing
        model[0].bias[2] = 0
        model[0].weight[5] *= 20
    images = torch.randn(64, 6)
    return NeuronGame(model, images, torch.randint(3, (64,)), find_neurons(model, images[:2], include=["0"]))


@pytest.mark.parametrize("name", [name for name in SCORES if name not in ("random", "norm-gamma")])
def test_a_dead_neuron_scores_least_and_a_loud_one_most(name):
    scores = SCORES[name](game(), 0)
    assert scores.shape == (8,)
    assert int(scores.argmin()) == 2
    if name in ("filter-norm", "activation"):
        assert int(scores.argmax()) == 5


def test_random_scores_follow_the_seed():
    assert torch.equal(SCORES["random"](game(), 3), SCORES["random"](game(), 3))
    assert not torch.equal(SCORES["random"](game(), 3), SCORES["random"](game(), 4))


def test_norm_gamma_reads_the_scale_and_needs_one():
    with pytest.raises(UserError, match="needs norm layers"):
        SCORES["norm-gamma"](game(), 0)
    network = build_network("resnet18", (3, 16, 16), 0, width=4)
    network.add_head(2)
    images = torch.randn(4, 3, 16, 16)
    neurons = find_neurons(network.body, images[:2], include=["*"])
    owned = next(o for o in neurons.owned if o.role == "norm" and o.name.endswith("weight"))
    with torch.no_grad():
        owned.tensor[1] = -7.0
    whole = NeuronGame(network, images, torch.tensor([0, 1, 0, 1]), neurons)
    scores = SCORES["norm-gamma"](whole, 0)
    assert float(scores[owned.owner[1]]) == 7.0
    assert int(scores.argmax()) == int(owned.owner[1])


@pytest.mark.parametrize("at_once", [1, 7, 64, 300])
def test_activation_weighs_every_image_alike_whatever_the_batch_size(at_once, monkeypatch):
    monkeypatch.setattr("snv.valuation.examples.READ_AT_ONCE", at_once)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    images = torch.randn(257, 6)
    images[-1] *= 1000  # alone in the last batch of 1, 64 or 256
    whole = NeuronGame(model, images, torch.zeros(257, dtype=torch.long), means=torch.zeros(8))
    sizes = model[0](images).detach().abs().double().mean(0)
    torch.testing.assert_close(SCORES["activation"](whole, 0), sizes / sizes.mean())


def test_activation_leaves_a_model_in_training_as_it_was():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2))
    whole = NeuronGame(model, torch.randn(9, 1, 6, 6), torch.arange(9) % 2)
    before = model[1].running_mean.clone()
    model.train()
    SCORES["activation"](whole, 0)
    assert torch.equal(model[1].running_mean, before)
    assert model.training

"""Whole forward passes with hooks: the plain way, which every faster one is measured against."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from snv.neurons.find import find_neurons
from snv.neurons.gates import ablated, mean_responses_to
from snv.valuation.hooked import Hooked, n_bytes


@pytest.fixture
def hooked():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3)).eval()
    engine = Hooked(model, find_neurons(model, torch.randn(2, 5)))
    engine.profile(model, torch.randn(1, 5))
    return engine


@torch.no_grad()
def test_each_coalition_has_the_logits_of_the_network_with_all_others_ablated(hooked):
    images = torch.randn(7, 5)
    means = mean_responses_to(hooked.forward, hooked.neurons, [images])
    coalitions = torch.rand(3, hooked.neurons.n) < 0.5
    logits = hooked.logits(images, hooked.plan(coalitions.float(), 7, memory=2**20), means)
    for coalition, own in zip(coalitions, logits, strict=True):
        with ablated(hooked.neurons, coalition, means):
            torch.testing.assert_close(own, hooked.forward(images))


@pytest.mark.parametrize("memory", [1, 500, 2000, 10**6])
def test_a_plan_stays_within_the_memory_and_holds_at_least_one_example_and_coalition(hooked, memory):
    plan = hooked.plan(torch.rand(9, hooked.neurons.n), 7, memory)
    assert 1 <= plan.examples <= 7
    assert 1 <= len(plan.gates) <= 9
    assert plan.cost == len(plan.gates)
    assert plan.examples * len(plan.gates) * hooked.bytes <= max(memory, hooked.bytes)


def test_only_tensors_have_bytes():
    assert n_bytes(torch.zeros(3, 4)) == 48
    assert n_bytes((torch.zeros(3), None)) == 0

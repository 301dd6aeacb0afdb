"""Specialists need no learner: they answer, prove, forget and come back from their state."""

from __future__ import annotations

import pytest
import torch

from snv.files import cloned
from snv.networks import build_network
from snv.seeding import generator
from snv.subnetworks.certificate import UNTURNED
from snv.subnetworks.rules import RULES, measure
from snv.subnetworks.specialists import Specialists
from snv.subnetworks.subnetwork import Subnetwork, subnetwork_of

SHAPE = (1, 6, 6)
SIZES = (2, 3, 2)


def images(n: int = 9) -> torch.Tensor:
    return torch.randn(n, *SHAPE, generator=torch.Generator().manual_seed(1))


def untaught(seed: int = 0) -> Specialists:
    network = build_network("convnet", SHAPE, seed, width=4)
    network.eval()
    return Specialists(network, SHAPE)


def chosen(specialists: Specialists, t: int) -> Subnetwork:
    """Every second neuron, starting with another one for each task."""
    neurons = specialists.neurons
    mask = torch.arange(neurons.n) % 2 == t % 2
    return subnetwork_of(specialists.body, neurons, mask)


def taught(n_tasks: int = 2) -> Specialists:
    specialists = untaught()
    for t in range(n_tasks):
        specialists.network.add_head(SIZES[t])
        specialists.adopt(chosen(specialists, t), seed=t)
        labels = torch.arange(9) % SIZES[t]
        with torch.no_grad():
            features = [specialists.specialist(s).features(images()) for s in range(t + 1)]
            specialists.add_statistics(measure(labels, features, specialists.logits(images(), t), SIZES[t]))
    return specialists


@pytest.mark.parametrize("rule", RULES)
def test_without_the_task_every_rule_answers_all_classes(rule):
    logits = taught().logits(images(), None, rule)
    assert logits.shape == (9, 5)
    assert logits.isfinite().all()


def test_what_is_frozen_is_the_union_of_all_subnetworks():
    assert bool(taught(2).frozen.all())
    assert torch.equal(taught(1).frozen, taught(1).subnetworks[0].mask)


@pytest.mark.parametrize("heads", [(), (2, 3), (4,), (2, 3, 2)], ids=str)
def test_a_state_comes_back_whatever_heads_there_were(heads):
    specialists, again = taught(), untaught(seed=7)
    for k in heads:
        again.network.add_head(k)
    again.load(cloned(specialists.state()))
    assert again.network.head_sizes == [2, 3]
    assert again.changed() == {}
    for t in (0, 1, None):
        assert torch.equal(again.logits(images(), t), specialists.logits(images(), t))


def test_a_certificate_that_still_names_rotations_verifies_and_still_finds_a_changed_bit():
    specialists = taught()
    state = cloned(specialists.state())
    for certificate in state["certificates"]:
        certificate["evidence"].insert(1, UNTURNED)
    again = untaught(seed=7)
    again.load(state)
    assert again.changed() == {}
    again.statistics[1].covariance.view(torch.int32).view(-1)[-1] ^= 1
    assert again.changed() == {1: ["covariance"]}


def test_a_head_of_the_right_size_stays_the_same_object_since_an_optimiser_may_have_it():
    specialists = taught()
    head = specialists.network.head(0)
    specialists.load(cloned(specialists.state()))
    assert specialists.network.head(0) is head


def test_a_changed_weight_is_blamed_on_the_task_that_reads_it():
    specialists = taught()
    with torch.no_grad():
        specialists.network.head(1).bias[0] += 1
    assert specialists.changed() == {1: ["weights", "answers"]}
    with pytest.raises(RuntimeError, match="Task 2 is not what it was when it was frozen: weights, answers"):
        specialists.verify()


@pytest.mark.parametrize("t", [0, 1])
def test_forgetting_a_task_leaves_the_answers_of_the_other(t):
    specialists = taught()
    before = specialists.logits(images(), 1 - t)
    specialists.forget(t, generator(0, "test"))
    assert specialists.changed() == {}
    assert specialists.network.head_sizes == [SIZES[1 - t]]
    assert torch.equal(specialists.logits(images(), 0), before)
    assert torch.equal(specialists.frozen, specialists.subnetworks[0].mask)

"""What sparse methods share: the network they take, what they refuse, what they count."""

from __future__ import annotations

import logging

import pytest
import torch
from sparse_toy import adapted
from torch import nn
from toy import learn, make, toy_stream

from snv.errors import UserError
from snv.learners import LEARNERS
from snv.learners.sparse import SparseLearner

SPARSE = [name for name, kind in LEARNERS.items() if issubclass(kind, SparseLearner)]


@pytest.mark.parametrize("name", SPARSE)
def test_by_default_the_network_is_the_authors_and_otherwise_the_runs_with_instance_norm(name):
    stream = toy_stream()
    learner = make(name, "til", stream)
    assert learner.network is not learner.setting.network
    other = adapted(name, "til", stream)
    assert other.network is other.setting.network
    kinds = {type(module) for module in other.network.modules()}
    assert nn.InstanceNorm2d in kinds
    assert nn.BatchNorm2d not in kinds


@pytest.mark.parametrize("name", SPARSE)
def test_a_setting_without_meaning_is_accepted_and_said_to_have_none(name, caplog):
    with caplog.at_level(logging.INFO, logger="snv.learners.sparse"):
        LEARNERS[name].Config(strength=1.0)
        assert not caplog.records
        LEARNERS[name].Config(strength=10.0)
    assert "strength has no counterpart" in caplog.text


@pytest.mark.parametrize("name", SPARSE)
def test_images_that_shrink_to_one_position_are_refused_with_advice(name):
    with pytest.raises(UserError, match=r"8×8 pixels shrink to one position.*Use a shallower network"):
        adapted(name, "til", toy_stream(), "resnet18", width=4)


@pytest.mark.parametrize("name", SPARSE)
def test_the_share_in_use_counts_connections_with_their_kernels_and_the_entries_of_neurons_that_have_one(name):
    learner = adapted(name, "til", toy_stream())
    masks = {c.name: torch.zeros(c.weight.shape[:2], dtype=torch.bool) for c in learner.units.connections}
    assert learner.share_in_use(masks) == {"parameters": 0.0, "neurons": 0.0}
    masks["conv2"][3, :2] = True
    masks["conv4"][1, 0] = masks["conv4"][2, 0] = True
    total = sum(p.numel() for p in learner.network.body.parameters())
    expected = (4 * 9 + 3 * 2) / total  # four kernels; scale and shift of three filters
    assert learner.share_in_use(masks) == {"parameters": pytest.approx(expected), "neurons": 3 / 48}


@pytest.mark.parametrize("name", SPARSE)
def test_capacity_grows_with_tasks_and_stays_a_share(name):
    stream = toy_stream()
    learner = adapted(name, "til", stream, width=12)
    before = 0.0
    for t in range(3):
        learn(learner, stream, t)
        now = learner.capacity()["parameters"]
        assert before <= now <= 1
        before = now
    assert before > 0


@pytest.mark.parametrize("name", SPARSE)
def test_old_heads_are_given_to_no_optimiser(name):
    stream = toy_stream()
    learner = adapted(name, "cil", stream)
    learn(learner, stream, 0)
    task = stream.task(1).without_test()
    learner.begin_task(task)
    given = {id(p) for p in learner.parameters(learner.stage(task, 0))}
    assert not given & {id(p) for p in learner.network.heads[0].parameters()}
    assert id(learner.network.heads[1].bias) in given

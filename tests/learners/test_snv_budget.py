"""What a task of SNV takes of the network, what it reuses, and what happens when the network is full."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
import torch
from snv_toy import learned, normed
from toy import learn, make, toy_stream

from snv.errors import UserError
from snv.neurons.wiring import own_weights
from snv.runs.evaluate import accuracy


def test_counted_reuse_keeps_exactly_the_budget_and_free_reuse_more():
    counted, _ = learned(3, reuse="counted", size="top-k")
    free, _ = learned(3, reuse="free", size="top-k")
    budget = int(0.3 * counted.specialists.neurons.n)
    assert all(int(s.mask.sum()) == budget for s in counted.specialists.subnetworks)
    assert int(free.specialists.subnetworks[2].mask.sum()) >= budget
    assert int(free.specialists.frozen.sum()) >= int(counted.specialists.frozen.sum())


def test_capacity_is_the_share_of_parameters_frozen():
    learner, _ = learned(1, reuse="counted")
    told = learner.capacity()
    assert told["neurons"] == pytest.approx(float(learner.specialists.frozen.double().mean()))
    assert 0 < told["parameters"] <= 1


def test_a_full_network_is_announced_before_the_task_and_still_learns_by_reuse(caplog):
    stream = toy_stream(4)
    learner = make("snv", "til", stream, epochs=16, capacity=0.5, size="top-k")
    with caplog.at_level("INFO"):
        for t in range(4):
            learn(learner, stream, t)
    assert bool(learner.specialists.frozen.all())
    assert "is full after task 2 of 4" in caplog.text
    assert "finds the network full: all 24 neurons are frozen" in caplog.text
    assert all(accuracy(learner, stream.test(t), stream.blocks[t]) > 60 for t in range(4))
    learner.specialists.verify()


def test_without_reuse_a_layer_too_small_for_all_tasks_is_refused_before_training():
    stream = toy_stream(4)
    learner = make("snv", "til", stream, reuse="none")
    learner.setting = dataclasses.replace(learner.setting, n_tasks=25)
    with pytest.raises(UserError, match=r"Task 1 does not fit: .* has 24 free neurons for 25 tasks"):
        learner.begin_task(stream.task(0).without_test())
    assert learner.blocks == []


def test_without_reuse_a_task_leaves_every_later_one_its_part_of_every_layer():
    stream = toy_stream(4)
    learner = normed(make("snv", "til", stream), reuse="none", capacity=0.9, size="top-k")
    for t in range(4):
        learn(learner, stream, t)
    assert all(
        int(part.sum()) >= 1
        for s in learner.specialists.subnetworks
        for _, part in learner.specialists.neurons.by_layer(s.mask)
    )
    assert int(sum(s.mask.long() for s in learner.specialists.subnetworks).max()) == 1


def test_no_reuse_means_disjoint_subnetworks():
    learner, _ = learned(3, reuse="none")
    total = sum(s.mask.long() for s in learner.specialists.subnetworks)
    assert int(total.max()) == 1


def test_a_share_of_what_remains_never_fills_the_network():
    learner, _ = learned(3)
    free = [learner.specialists.neurons.n]
    union = torch.zeros(learner.specialists.neurons.n, dtype=torch.bool)
    for subnetwork in learner.specialists.subnetworks:
        union |= subnetwork.mask
        free.append(int((~union).sum()))
    new = [before - after for before, after in itertools.pairwise(free)]
    assert new == [max(1, int(0.3 * left)) for left in free[:-1]]
    assert free[-1] > 0


def test_no_subnetwork_is_larger_than_allowed():
    learner, _ = learned(3, largest=0.4)
    assert all(int(s.mask.sum()) <= 0.4 * learner.specialists.neurons.n for s in learner.specialists.subnetworks)


def test_capacity_counts_the_weights_that_any_task_reads():
    stream = toy_stream()
    learner = normed(make("snv", "til", stream))
    learn(learner, stream, 0)
    total = sum(p.numel() for p in learner.specialists.body.parameters())
    mask = learner.specialists.subnetworks[0].mask
    parts = learner.specialists.neurons.owned
    per_task = sum(int(mask[owned.owner].sum()) for owned in parts if owned.role == "norm")
    read = sum(part.weights.numel() for part in learner.specialists.reads(0))
    rows = sum(owned.tensor[mask[owned.owner]].numel() for owned in own_weights(learner.specialists.neurons))
    assert learner.capacity()["parameters"] == pytest.approx((read + per_task) / total)
    assert read < 0.7 * rows, "weights from silent neurons are not read"

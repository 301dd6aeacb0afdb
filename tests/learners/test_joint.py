"""The upper bound does not forget; what it must be and must not be."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from test_learner_contract import assert_same
from toy import learn, make, toy_stream

from snv.config import load_config
from snv.learners.joint import losses_by_own_head
from snv.runs.evaluate import accuracy
from snv.runs.run import run


@pytest.mark.parametrize("scenario", ["til", "cil"])
def test_with_one_task_SGD_and_Joint_are_bit_identical(scenario):
    stream = toy_stream(1)
    states = []
    for name in ("sgd", "joint"):
        learner = make(name, scenario, stream)
        learn(learner, stream, 0)
        states.append(learner.state_dict())
    assert_same(*states)


def test_the_joint_loader_holds_exactly_the_images_of_all_tasks_so_far():
    stream = toy_stream()
    for t in range(3):
        task = stream.upto(t)
        assert len(task.train) == sum(len(stream.task(s).train) for s in range(t + 1))
        assert set(task.train.labels.tolist()) == set(range(stream.blocks[t].stop))


def test_Joint_starts_every_step_from_the_same_weights():
    stream = toy_stream()
    learner = make("joint", "cil", stream)
    learn(learner, stream, 0)
    learner.begin_task(stream.upto(1))
    fresh = make("joint", "cil", stream)
    fresh.begin_task(stream.upto(0))
    body = {k: v for k, v in learner.network.state_dict().items() if not k.startswith("heads.1")}
    assert_same(body, dict(fresh.network.state_dict()))


def test_what_Joint_learns_does_not_depend_on_the_steps_before():
    stream = toy_stream()
    every, last = make("joint", "cil", stream), make("joint", "cil", stream, when="last")
    for t in range(3):
        learn(every, stream, t)
        learn(last, stream, t)
    assert_same(every.state_dict(), last.state_dict())


def test_Joint_that_waits_has_nothing_to_evaluate_before_the_end(tmp_path):
    overrides = ["method=joint", "learner.when=last", "data.tasks=3", "data.classes=6", "train.epochs=2"]
    record = run(load_config(None, overrides), tmp_path / "run")
    assert np.isnan(record.accuracy[:2]).all()
    assert record.metrics["ACC"] > 0
    assert [record.metrics[name] for name in ("AvgAcc", "BWT", "FWT", "forgetting", "PS")] == [None] * 5


def test_knowing_the_task_is_never_worse_for_Joint():
    stream = toy_stream()
    final = []
    for scenario in ("til", "cil"):
        learner = make("joint", scenario, stream, epochs=20)
        for t in range(3):
            learn(learner, stream, t)
        final.append(sum(accuracy(learner, stream.test(j), stream.blocks[j]) for j in range(3)))
    assert final[0] >= final[1]


def test_Joint_does_not_forget_where_SGD_does():
    stream = toy_stream()
    final = {}
    for name in ("sgd", "joint"):
        learner = make(name, "cil", stream, epochs=20)
        for t in range(3):
            learn(learner, stream, t)
        final[name] = sum(accuracy(learner, stream.test(j), stream.blocks[j]) for j in range(3)) / 3
    assert final["joint"] > 80
    assert final["sgd"] < 50


def test_in_TIL_every_image_is_scored_within_its_own_head():
    logits = torch.tensor([[1.0, 2.0, 30.0, 40.0], [50.0, 60.0, 1.0, 3.0]])
    blocks = [range(2), range(2, 4)]
    losses = losses_by_own_head(logits, torch.tensor([1, 2]), blocks)
    expected = torch.log1p(torch.exp(torch.tensor([-1.0, 2.0])))
    torch.testing.assert_close(losses, expected)

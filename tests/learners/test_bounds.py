"""SGD forgets, Joint does not; what each must be and must not be."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from test_learner_contract import assert_same
from toy import learn, make, toy_stream

from snv.config import load_config
from snv.files import cloned
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


def test_SGD_in_CIL_answers_everything_with_the_newest_classes():
    stream = toy_stream()
    learner = make("sgd", "cil", stream)
    learn(learner, stream, 0)
    learn(learner, stream, 1)
    assert accuracy(learner, stream.test(0), stream.blocks[0]) < 50
    assert accuracy(learner, stream.test(1), stream.blocks[1]) > 90


def test_in_TIL_other_heads_are_untouched_but_the_body_moves():
    stream = toy_stream()
    learner = make("sgd", "til", stream)
    learn(learner, stream, 0)
    before = cloned(dict(learner.network.state_dict()))
    learn(learner, stream, 1)
    after = learner.network.state_dict()
    assert torch.equal(after["heads.0.weight"], before["heads.0.weight"])
    assert torch.equal(after["heads.0.bias"], before["heads.0.bias"])
    assert any(not torch.equal(after[k], v) for k, v in before.items() if k.startswith("body"))


def test_in_TIL_too_SGD_forgets(tmp_path):
    overrides = ["method=sgd", "scenario=til", "network.width=16", "train.epochs=8", "threads=1"]
    record = run(load_config(None, overrides), tmp_path / "run")
    assert (record.accuracy.diagonal() > 80).all()
    assert record.metrics["BWT"] < -3


def test_in_CIL_old_heads_do_move():
    stream = toy_stream()
    learner = make("sgd", "cil", stream)
    learn(learner, stream, 0)
    before = learner.network.heads[0].weight.detach().clone()
    learn(learner, stream, 1)
    assert not torch.equal(before, learner.network.heads[0].weight)


def test_training_only_on_the_new_classes_is_another_method():
    stream = toy_stream()
    results = []
    for scope in ("seen", "new"):
        learner = make("sgd", "cil", stream, ce_scope=scope)
        learn(learner, stream, 0)
        learn(learner, stream, 1)
        results.append(learner.network.heads[0].weight.detach().clone())
    assert not torch.equal(*results)


def test_heads_outside_the_loss_do_not_decay():
    stream = toy_stream()
    for name, settings in (("sgd", {"ce_scope": "new"}), ("lwf", {"strength": 0.0})):
        learner = make(name, "cil", stream, **settings)
        decaying = dataclasses.replace(learner.setting.train, weight_decay=0.01)
        learner.setting = dataclasses.replace(learner.setting, train=decaying)
        learn(learner, stream, 0)
        before = learner.network.heads[0].weight.detach().clone()
        learn(learner, stream, 1)
        assert torch.equal(before, learner.network.heads[0].weight)


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


@pytest.mark.parametrize("scenario", ["til", "cil"])
def test_a_head_outside_the_task_receives_no_gradient(scenario):
    stream = toy_stream()
    learner = make("sgd", scenario, stream)
    for t in range(2):
        learner.begin_task(stream.task(t).without_test())
    future = learner.network.fresh_head(stream.blocks[2].start, 2)
    learner.network.heads.append(future)  # as a network with all its heads from the start would have it
    learner.task_logits(torch.randn(4, 1, 8, 8))[:, : learner.blocks[-1].stop].sum().backward()
    received = [head.weight.grad is not None and bool(head.weight.grad.any()) for head in learner.network.heads]
    assert received == ([False, True, False] if scenario == "til" else [True, True, False])

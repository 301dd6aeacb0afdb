"""What every method inherits: heads outside the loss stay as they are."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from toy import learn, make, toy_stream

from snv.files import cloned


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


def test_in_CIL_old_heads_do_move():
    stream = toy_stream()
    learner = make("sgd", "cil", stream)
    learn(learner, stream, 0)
    before = learner.network.heads[0].weight.detach().clone()
    learn(learner, stream, 1)
    assert not torch.equal(before, learner.network.heads[0].weight)


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


@pytest.mark.parametrize("scenario", ["til", "cil"])
def test_a_head_outside_the_task_receives_no_gradient(scenario):
    stream = toy_stream()
    learner = make("sgd", scenario, stream)
    for t in range(2):
        learner.begin_task(stream.task(t).without_test())
    future = learner.network.fresh_head(stream.blocks[2].start, 2)
    learner.network.heads.append(future)  # as a network with all its heads from the start would have it
    learner.logits(torch.randn(4, 1, 8, 8), learner.scope())[:, : learner.blocks[-1].stop].sum().backward()
    received = [head.weight.grad is not None and bool(head.weight.grad.any()) for head in learner.network.heads]
    assert received == ([False, True, False] if scenario == "til" else [True, True, False])

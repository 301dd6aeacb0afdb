"""Streaming LDA: nothing is trained, the order of tasks does not matter, nothing is forgotten."""

from __future__ import annotations

import pytest
import torch
from toy import learn, make, toy_stream

from snv.errors import UserError
from snv.learners.slda import SLDA, SLDAConfig


def learned(scenario, order=(0, 1, 2), **config):
    stream = toy_stream()
    learner = make("slda", scenario, stream, filters=8, **config)
    assert isinstance(learner, SLDA)
    learner.space.fit(torch.rand(500, 36, generator=torch.Generator().manual_seed(0)))
    with pytest.MonkeyPatch.context() as patch:  # in another order another task is first, but patches stay the same
        patch.setattr("snv.learners.slda.fit_space", lambda *_: None)
        for t in order:
            learner.begin_task(stream.task(t).without_test())
            learner.end_task(stream.task(t).without_test())
    return learner


@pytest.mark.parametrize("order", [(2, 1, 0), (1, 2, 0)])
def test_tasks_in_another_order_give_the_same_scores(order):
    images = torch.randn(20, 1, 8, 8)
    straight, other = learned("cil").logits(images, None), learned("cil", order).logits(images, None)
    blocks = toy_stream().blocks
    columns = [column for t in order for column in blocks[t]]
    torch.testing.assert_close(other, straight[:, columns], atol=1e-4, rtol=1e-4)


def test_a_task_is_answered_in_til_bit_for_bit_as_when_it_was_learned():
    stream = toy_stream()
    learner = make("slda", "til", stream, filters=8)
    images = torch.randn(5, 1, 8, 8)
    learn(learner, stream, 0)
    answers = learner.logits(images, stream.blocks[0])
    learn(learner, stream, 1)
    learn(learner, stream, 2)
    assert torch.equal(learner.logits(images, stream.blocks[0]), answers)


def test_nothing_is_trained():
    stream = toy_stream()
    learner = make("slda", "cil", stream, filters=8)
    weights = {name: x.clone() for name, x in learner.network.body.state_dict().items()}
    learn(learner, stream, 0)
    assert all(torch.equal(x, weights[name]) for name, x in learner.network.body.state_dict().items())


@pytest.mark.parametrize(("setting", "value"), [("filters", 0), ("shrinkage", 0.0), ("shrinkage", 1.5)])
def test_a_setting_out_of_range_is_refused(setting, value):
    with pytest.raises(UserError, match=f"learner.{setting}"):
        SLDAConfig(**{setting: value})

"""What one step sees."""

from __future__ import annotations

import torch
from toy import make, toy_stream

from snv.training.loop import Training
from snv.training.stage import Stage


def test_randomness_of_a_step_depends_on_its_purpose_and_on_nothing_drawn_before():
    stream = toy_stream()
    learner, task = make("sgd", "til", stream), stream.task(0).without_test()
    learner.begin_task(task)
    batch = next(Training(learner, task, learner.stage(task, 0))._batches())
    first = torch.rand(3, generator=batch.rng("a"))
    assert torch.equal(first, torch.rand(3, generator=batch.rng("a")))
    assert not torch.equal(first, torch.rand(3, generator=batch.rng("b")))


def test_a_stage_may_train_on_other_images_than_the_task_has():
    stream = toy_stream()
    learner, task = make("sgd", "til", stream), stream.task(0).without_test()
    learner.begin_task(task)
    stage = Stage("train", learner.setting.train, train=task.val)
    assert Training(learner, task, stage).train is task.val
    assert stage == Stage("train", learner.setting.train), "the same stage, wherever it trains"

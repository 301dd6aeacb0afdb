"""What one step sees."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F
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


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_a_batch_smooths_its_labels_as_its_stage_says(smoothing):
    stream = toy_stream()
    learner, task = make("sgd", "til", stream), stream.task(1).without_test()
    learner.begin_task(task)
    stage = Stage("train", dataclasses.replace(learner.setting.train, smoothing=smoothing))
    batch = next(Training(learner, task, stage)._batches())
    logits = torch.randn(len(batch.labels), len(task.block))
    expected = F.cross_entropy(logits, batch.labels - task.block.start, label_smoothing=smoothing)
    torch.testing.assert_close(batch.cross_entropy(logits, task.block), expected)

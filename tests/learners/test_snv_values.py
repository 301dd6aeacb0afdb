"""How SNV values the neurons of a task."""

from __future__ import annotations

import dataclasses
import weakref

import pytest
import torch
from snv_toy import learned
from toy import make, toy_stream

from snv.data.augment import Preprocess
from snv.data.task import InMemory
from snv.errors import UserError
from snv.files import cloned
from snv.shapley.estimate import estimate
from snv.training.loop import Training
from snv.training.setting import EVALUATION_BATCH


def test_values_from_training_survive_a_best_epoch_that_is_not_the_last():
    stream = toy_stream()
    learner = make("snv", "til", stream, epochs=12, estimator="in-run", dense_share=0.9)
    learner.begin_task(stream.task(0).without_test())
    stage = learner.stage(stream.task(0).without_test(), 0)
    training = Training(learner, stream.task(0).without_test(), stage)
    for _ in range(3):
        training.train_one_epoch()
    training.progress.best_epoch = training.progress.epoch - 1 - stage.settings.patience  # as if none had been better
    training.run()
    learner.end_stage(stream.task(0).without_test(), stage)
    assert learner.values[0].abs().max() > 0
    assert len(learner.values[0].unique()) > 12


@pytest.mark.parametrize(("estimator", "floor"), [("tmab", 0.2), ("hybrid", None)])
def test_the_cut_that_was_estimated_is_the_one_that_was_made(estimator, floor, monkeypatch):
    found = []

    def spied(*arguments, **settings):
        found.append((estimate(*arguments, **settings), settings))
        return found[-1][0]

    monkeypatch.setattr("snv.learners.snv_values.estimate", spied)
    learner, _ = learned(2, estimator=estimator, draws=4, floor=floor, confidence=0.9)
    valuation, settings = found[1]
    old, new = learner.specialists.subnetworks[0].mask, learner.specialists.subnetworks[1].mask
    assert torch.equal(settings["candidates"], ~old)
    assert settings["confidence"] == 0.9
    assert settings.get("floor") == floor
    assert sorted(valuation.top_k().tolist()) == (new & ~old).nonzero()[:, 0].tolist()


def test_exact_values_of_a_large_network_are_refused_before_training():
    with pytest.raises(UserError, match="exact values up to 16 neurons; this network has 24"):
        make("snv", "til", toy_stream(), estimator="exact")


def test_a_task_is_valued_and_measured_with_two_batches_of_its_images_in_memory(monkeypatch):
    monkeypatch.setattr("snv.valuation.examples.ROOM", 0)
    alive, prepared, plain = [0], [0, 0], Preprocess.__call__

    def gone(n: int) -> None:
        alive[0] -= n

    def watched(self, *arguments):
        images = plain(self, *arguments)
        alive[0] += len(images)
        prepared[:] = prepared[0] + len(images), max(prepared[1], alive[0])
        weakref.finalize(images, gone, len(images))
        return images

    stream = toy_stream(1)
    learner = make("snv", "cil", stream, capacity=0.3)
    task = stream.task(0)
    task = dataclasses.replace(task, train=repeated(task.train), val=repeated(task.val), test=None)
    learner.begin_task(task)
    monkeypatch.setattr(Preprocess, "__call__", watched)
    learner.end_stage(task, learner.stage(task, 0))
    learner.end_stage(task, learner.stage(task, 1))
    learner.end_task(task)
    total, most = prepared
    assert total > 1500
    assert most <= 2 * EVALUATION_BATCH


def repeated(split: InMemory) -> InMemory:
    return InMemory(split.pixels.repeat(50, 1, 1, 1), split.labels.repeat(50))


def test_a_state_from_before_valuations_were_kept_is_taken():
    learner, stream = learned(2)
    state = cloned(learner.state_dict())
    del state["valuations"]
    again = make("snv", "til", stream, capacity=0.3)
    again.load_state_dict(state)
    assert again.valuations == [None, None]

"""What a run asks its learner goes into the record, row by row; what asking takes is counted, but not the stopwatch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from toy import learn, make, toy_stream

from snv.runs.evaluate import accuracy
from snv.runs.exam import Exam
from snv.runs.meter import Meter
from snv.runs.record import Record
from snv.training import Reporter


def exam(scenario: str, told: list[tuple[str, float, float]] | None = None) -> Exam:
    stream = toy_stream()
    learner = make("sgd", scenario, stream)
    tell = (lambda *news: told.append(news)) if told is not None else (lambda *_: None)
    return Exam(learner, stream, Record.blank({}, len(stream)), Meter(), tell)


def test_a_row_has_the_tasks_learned_and_the_next_one_and_names_their_classes():
    held = exam("til")
    learn(held.learner, held.stream, 0)
    held.of_row(0)
    expected = [accuracy(held.learner, held.stream.test(j), held.stream.blocks[j]) for j in range(2)]
    assert held.record.accuracy[0, :2].tolist() == expected
    assert np.isnan(held.record.accuracy[0, 2]) and np.isnan(held.record.accuracy[1:]).all()
    assert np.isnan(held.record.known).all(), "with the task known there is nothing else to ask"
    assert held.record.details.tasks == (held.stream.names(0),)


def test_a_CIL_row_is_asked_again_with_the_task_known():
    held = exam("cil")
    for t in range(2):
        learn(held.learner, held.stream, t)
    held.of_row(1)
    expected = [accuracy(held.learner, held.stream.test(j), held.stream.blocks[j], known=True) for j in range(2)]
    assert held.record.known[1, :2].tolist() == expected
    assert held.record.accuracy[1, 2] == 0, "classes to come are no candidates"


def test_the_untrained_network_is_asked_about_every_task_and_says_how_far_it_is():
    told: list[tuple[str, float, float]] = []
    held = exam("til", told)
    held.of_untrained()
    assert not np.isnan(held.record.untrained).any()
    shares = [done / total for _, done, total in told]
    assert shares == sorted(shares) and shares[-1] == 1


def test_a_row_is_counted_and_the_stopwatch_is_not():
    held = exam("til")
    held.learner.reporter = Reporter(counted=held.meter.counted)
    learn(held.learner, held.stream, 0)
    held.of_row(0)
    counted = dict(held.meter.macs)
    held.of_speed()
    assert counted["evaluate"] > 0 and held.meter.macs == counted
    assert set(held.record.cost["latency_ms"]) == {"1", "64"} and min(held.record.cost["latency_ms"].values()) > 0
    assert held.record.cost["parameters"] == sum(p.numel() for p in held.learner.network.parameters())


def test_a_batch_that_memory_has_no_room_for_has_no_latency_and_any_other_error_is_one(monkeypatch):
    held = exam("til")
    learn(held.learner, held.stream, 0)
    logits = held.learner.logits

    def narrow(images, block):
        if len(images) > 10:
            raise error
        return logits(images, block)

    monkeypatch.setattr(held.learner, "logits", narrow)
    error: Exception = torch.OutOfMemoryError("CUDA out of memory.")
    held.of_speed()
    assert set(held.record.cost["latency_ms"]) == {"1"}
    error = RuntimeError("mat1 and mat2 shapes cannot be multiplied")
    with pytest.raises(RuntimeError, match="shapes"):
        held.of_speed()

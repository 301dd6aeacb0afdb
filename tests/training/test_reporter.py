"""Whoever wants to hears of a learner's work, and the work is the same without."""

from __future__ import annotations

from contextlib import contextmanager

import torch
from toy import learn, make, toy_stream

from snv.training.reporter import Reporter


def test_every_step_and_epoch_of_every_stage_is_reported_and_nothing_changes():
    weights, phases, surrounded, steps, epochs = [], [], [], [], []

    @contextmanager
    def around(*what):
        (phases if what else surrounded).append(what)
        yield

    for reporter in (Reporter(), Reporter(phase=around, step=around, on_step=steps.append, on_epoch=epochs.append)):
        learner = make("snv", "til", toy_stream(), epochs=3)
        learner.reporter = reporter
        learn(learner, toy_stream(), 0)
        weights.append(learner.network.heads[0].weight.detach())
    assert torch.equal(*weights)
    assert [entry["stage"] for entry in epochs] == ["dense", "dense", "consolidate"]
    assert len(surrounded) == len(steps) >= 3
    assert {"train", "consolidate", "value", "certify"} <= {what for (what,) in phases}

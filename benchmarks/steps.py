"""Steps of learners timed in turn; what other benchmarks here share."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

from snv.data import Task
from snv.learners import Learner
from snv.training import Stage, Training

Step = Callable[[], float]


def step_of(learner: Learner[Any], task: Task, stage: Stage | None, **changes: object) -> Step:
    """A function that takes one step of a stage and returns its CPU seconds; ``changes`` are made to its batch."""
    assert stage is not None
    training = Training(learner, task, stage)
    learner.set_training(True, stage)
    batch = dataclasses.replace(next(training._batches()), **changes)

    def step() -> float:
        learner.set_training(True, stage)
        start = time.process_time()
        learner.step(batch, training.optimizer)
        return time.process_time() - start

    return step


def least_seconds(steps: dict[str, Step], turns: int) -> dict[str, float]:
    """Of each step, taken in turn, the least CPU time, so that a busy machine does not matter."""
    least = dict.fromkeys(steps, float("inf"))
    for _ in range(turns):
        for name, step in steps.items():
            least[name] = min(least[name], step())
    return least

"""One task from beginning to end, stage after stage; it may stop at any step and go on later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from snv.data import Task
from snv.errors import DivergedError
from snv.files import State
from snv.training.loop import Trainable, Training
from snv.training.stage import Stage


class Learning(Trainable, Protocol):
    """What a task asks of a learner besides training."""

    def begin_task(self, task: Task) -> None: ...
    def stage(self, task: Task, index: int) -> Stage | None: ...
    def end_stage(self, task: Task, stage: Stage) -> None: ...
    def end_task(self, task: Task) -> None: ...


@dataclass
class Place:
    """Where a task stands: the stage under way, and its training if it was stopped within it."""

    stage: int = 0
    training: State | None = None


def learn_task(learner: Learning, task: Task, place: Place | None = None) -> None:
    """All of a task, or the rest of it from ``place`` on, which is kept up to date."""
    place = place or Place()
    if place.training is None:
        learner.begin_task(task)
    learn_stages(learner, task, place)
    learner.end_task(task)


def learn_stages(learner: Learning, task: Task, place: Place) -> None:
    """Every stage of a task that has begun; one that diverges is left where its last good epoch ended."""
    while (stage := learner.stage(task, place.stage)) is not None:
        stopped, place.training = place.training, None
        training = Training(learner, task, stage, stopped)
        try:
            with learner.reporter.phase(stage.phase):
                training.run()
        except DivergedError:
            place.training = training.state_dict()
            raise
        learner.end_stage(task, stage)
        place.stage += 1

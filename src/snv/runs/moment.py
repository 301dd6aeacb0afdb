"""A moment of a recorded run: its network as it was after a task, and a task as its neurons are valued."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from torch import Tensor

from snv.data import Task
from snv.errors import UserError
from snv.learners import SNV
from snv.networks import Specialist, load_norm
from snv.runs.given import Own
from snv.runs.prepare import Prepared, open_run, restore
from snv.runs.progress import Progress
from snv.valuation import Examples, NeuronGame


@dataclass(frozen=True)
class Moment:
    """A run's network as it was after some tasks, and one task's validation data as its neurons are valued on them."""

    model: Specialist
    images: Examples
    labels: Tensor

    def game(self, payoff: str = "loss", **settings: Any) -> NeuronGame:
        """V(S) of these neurons on these data."""
        return NeuronGame(self.model, self.images, self.labels, payoff=payoff, **settings)


def moment_after(
    path: Path, task: int, after: int | None, data_dir: Path | None, progress: Progress, **own: Unpack[Own]
) -> Moment:
    """Task ``task`` (counted from 1) in the network as it was after task ``after`` (default: right after that task)."""
    run = open_run(path, data_dir, progress, **own)
    check_moment(run, task, after)
    restore(run.learner, path, task if after is None else after)
    return moment_of(run, run.stream.task(task - 1), task)


def check_moment(run: Prepared, task: int, after: int | None) -> None:
    """Refuse a method without a network to value, a task the run does not have, and a moment before it."""
    if not run.learner.card.one_network:
        raise UserError(
            f"{run.config.method} has no network that answers as it stands, so its neurons cannot be valued. Value a "
            "run of a method with one network, such as sgd or snv."
        )
    n_tasks = len(run.stream)
    if not 1 <= task <= n_tasks:
        raise UserError(f"The run has tasks 1 to {n_tasks}; got --task {task}.")
    if after is not None and not task <= after <= n_tasks:
        raise UserError(f"Task {task} is valued after task {task} or a later one; got --after {after}.")


def moment_of(run: Prepared, task: Task, number: int) -> Moment:
    """The learner's network as it stands, on the validation images of a task: within its own head in TIL."""
    learner = run.learner
    til = learner.setting.scenario == "til"
    labels = task.val.labels.to(learner.setting.device) - (task.block.start if til else 0)
    if til and isinstance(learner, SNV):
        _load_own_norm(learner, number - 1)
    model = Specialist(learner.network, number - 1 if til else None)
    return Moment(model.eval(), learner.setting.examples(task.val), labels)


def _load_own_norm(learner: SNV, t: int) -> None:
    """The norm layers of task t, if it is frozen: each task has its own."""
    if t < len(learner.specialists.subnetworks):
        load_norm(learner.network.body, learner.specialists.subnetworks[t].norm)

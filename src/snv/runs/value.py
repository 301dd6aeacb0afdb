"""What the neurons of a recorded run are worth for one of its tasks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from snv.config import RunConfig, build, without_retired
from snv.data import Task
from snv.errors import UserError
from snv.files import load_state
from snv.learners import SNV, Learner
from snv.networks import Specialist, load_norm
from snv.runs.directory import RunDirectory
from snv.runs.run import Prepared, Progress, left_as_found, prepare
from snv.shapley import Number, Valuation, spearman
from snv.training import Place, Reporter, Training, learn_stages
from snv.valuation import Bill, Examples, LearnedValues, value_neurons


@dataclass(frozen=True)
class Moment:
    """A run's network as it was after some tasks, and one task's validation data as its neurons are valued on them."""

    model: Specialist
    images: Examples
    labels: Tensor


def value_run(
    path: Path,
    task: int,
    method: str = "gradient",
    *,
    after: int | None = None,
    data_dir: Path | None = None,
    progress: Progress = lambda *_: None,
    announce: Callable[[Bill], None] | None = None,
    max_evaluations: float = math.inf,
    max_seconds: float = math.inf,
    **settings: Any,
) -> Valuation:
    """Values for task ``task`` (counted from 1) of the network after task ``after`` (default: right after that task).

    V(S) is measured on the task's validation images, within its own head in TIL and among all classes seen in CIL.
    ``in-run`` repeats the training of the task, bit for bit, and credits every step to the neurons that moved.
    """
    run = open_run(path, data_dir, progress)
    if not run.learner.card.one_network:
        raise UserError(
            f"{run.config.method} has no network that answers as it stands, so its neurons cannot be valued. Value a "
            "run of a method with one network, such as sgd or snv."
        )
    n_tasks, last = len(run.stream), task if after is None else after
    if not 1 <= task <= n_tasks:
        raise UserError(f"The run has tasks 1 to {n_tasks}; got --task {task}.")
    if not task <= last <= n_tasks:
        raise UserError(f"Task {task} is valued after task {task} or a later one; got --after {last}.")
    if method == "in-run":
        return _valued_while_training(run, path, task, settings.get("k", 0.1), progress)
    _restore(run.learner, path, last)
    moment = _moment(run, run.stream.task(task - 1), task)
    return value_neurons(
        moment.model,
        (moment.images, moment.labels),
        method,
        seed=run.config.seed,
        max_evaluations=max_evaluations,
        max_seconds=max_seconds,
        announce=announce,
        progress=progress,
        **settings,
    )


def open_run(path: Path, data_dir: Path | None, progress: Progress) -> Prepared:
    """A recorded run with its data and an untrained learner."""
    directory = RunDirectory(path)
    if not directory.is_run():
        raise UserError(f"{path} is not a run directory: it has no config.json. Give the --out of a `snv run`.")
    stored = without_retired(directory.read("config.json"), path)
    if data_dir is not None:
        stored["data"]["dir"] = str(data_dir)
    return prepare(build(RunConfig, stored), progress, directory.read("environment.json"))


def _restore(learner: Learner[Any], path: Path, n_done: int) -> None:
    checkpoint = RunDirectory(path).task_path(n_done)
    if not checkpoint.exists():
        raise UserError(
            f"{checkpoint} does not exist: the run has not got that far, or keeps only its last task (keep=last). "
            "Finish the run, or choose --after with a task whose checkpoint is there."
        )
    learner.load_state_dict(load_state(checkpoint)["learner"])


def _moment(run: Prepared, task: Task, number: int) -> Moment:
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


def _valued_while_training(run: Prepared, path: Path, task: int, k: Number, progress: Progress) -> Valuation:
    """The task trained again from where the run stood before it, every step credited; compared with `gradient`."""
    learner = run.learner
    if task > 1:
        _restore(learner, path, task - 1)
    data = (run.stream.upto if learner.card.sees == "all tasks" else run.stream.task)(task - 1).without_test()
    learner.begin_task(data)
    moment = _moment(run, data, task)
    learned = LearnedValues.of(moment.model, moment.images, moment.labels)
    learner.reporter = Reporter(step=learned.step, on_step=partial(_tell, progress))
    with left_as_found():
        torch.set_num_threads(run.environment["threads"])
        learn_stages(learner, data, Place())
    result = learned.valuation(k)
    carried = value_neurons(moment.model, (moment.images, moment.labels), seed=run.config.seed, k=k)
    certificate = (
        "Not certified: in-run values credit what a neuron learned in this run, not what it carries. "
        f"Spearman with `gradient` values: {spearman(result.values, carried.values):.2f}."
    )
    return replace(result, certificate=certificate)


def _tell(progress: Progress, training: Training) -> None:
    n, at = len(training.train), training.progress
    progress("training again", at.epoch * n + at.images, training.settings.epochs * n)

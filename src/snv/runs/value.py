"""What the neurons of a recorded run are worth for one of its tasks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from snv.errors import UserError
from snv.runs.moment import check_moment, moment_of
from snv.runs.prepare import Prepared, left_as_found, open_run, restore
from snv.runs.progress import Progress
from snv.shapley import Number, Valuation, Workers, spearman
from snv.training import RATE_LOWERED, Fault, Place, Reporter, Training, learn_stages
from snv.valuation import Bill, LearnedValues, value_neurons


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
    workers: int | Workers | None = None,
    own_method: str | None = None,
    network: nn.Module | None = None,
    data: Any = None,
    **settings: Any,
) -> Valuation:
    """Values for task ``task`` (counted from 1) of the network after task ``after`` (default: right after that task).

    V(S) is measured on the task's validation images, within its own head in TIL and among all classes seen in CIL.
    ``in-run`` repeats the training of the task, bit for bit, and credits every step to the neurons that moved.
    ``workers`` evaluate coalitions and gradients in place of this process, see `value_neurons`.
    ``own_method``, ``network`` and ``data`` are those of the run, if it was made with some of one's own.
    """
    run = open_run(path, data_dir, progress, own_method=own_method, network=network, data=data)
    check_moment(run, task, after)
    if method == "in-run":
        if workers:
            raise UserError(
                "in-run values come from training, step after step, which no workers can share. Leave them out."
            )
        return _valued_while_training(run, path, task, settings.get("k", 0.1), progress)
    restore(run.learner, path, task if after is None else after)
    moment = moment_of(run, run.stream.task(task - 1), task)
    return value_neurons(
        moment.model,
        (moment.images, moment.labels),
        method,
        seed=run.config.seed,
        max_evaluations=max_evaluations,
        max_seconds=max_seconds,
        announce=announce,
        progress=progress,
        workers=workers,
        **settings,
    )


def _valued_while_training(run: Prepared, path: Path, task: int, k: Number, progress: Progress) -> Valuation:
    """The task trained again from where the run stood before it, every step credited; compared with `gradient`."""
    learner = run.learner
    if task > 1:
        restore(learner, path, task - 1)
    data = (run.stream.upto if learner.card.sees == "all tasks" else run.stream.task)(task - 1).without_test()
    learner.begin_task(data)
    moment = moment_of(run, data, task)
    learned = LearnedValues.of(moment.model, moment.images, moment.labels)
    learner.reporter = Reporter(step=learned.step, on_step=partial(_tell, progress), warn=partial(_refuse, path))
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


def _refuse(path: Path, fault: Fault) -> None:
    """Steps that were taken back cannot be credited."""
    if fault["kind"] == RATE_LOWERED:
        raise UserError(
            f"The training of task {fault['task']} of {path} went wrong in epoch {fault['epoch']} of stage "
            f"{fault['stage']} and was taken back to where that epoch began, so in-run values cannot follow it. "
            "Use --method gradient."
        )


def _tell(progress: Progress, training: Training) -> None:
    n, at = len(training.train), training.progress
    progress("training again", at.epoch * n + at.images, training.settings.epochs * n)

"""How much a network can lose: its accuracy while more and more of its smallest weights are set to 0."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeGuard, Unpack

import numpy as np
import torch
from torch import Tensor

from snv.errors import UserError
from snv.files import load_state
from snv.learners import SNV, Learner
from snv.report.analyses.finding import Finding, Shown, number, percent
from snv.runs import Own, Prepared, Progress, RunDirectory, accuracy, left_as_found, load_record, open_run

SHARES = tuple(i / 10 for i in range(10))
DROP = 10.0
"""Percentage points of ACC whose loss is a cliff."""


@dataclass(frozen=True)
class Pruning(Finding):
    """Accuracies under global magnitude pruning."""

    name: ClassVar[str] = "pruning"
    shares: tuple[float, ...]  # of the weights set to 0
    accuracy: tuple[tuple[float, ...], ...]  # percent, by share and task
    weights: int  # how many there are to prune
    drop: float  # what loss of ACC, in percentage points, is a cliff
    alone: tuple[tuple[float, ...], ...] | None = None  # the same of specialists without their common space, if any

    @property
    def acc(self) -> tuple[float, ...]:
        """ACC at each share."""
        return tuple(float(np.mean(row)) for row in self.accuracy)

    @property
    def acc_alone(self) -> tuple[float, ...] | None:
        """ACC at each share without the common space."""
        return None if self.alone is None else tuple(float(np.mean(row)) for row in self.alone)

    @property
    def cliff(self) -> float | None:
        """The first share at which ACC is more than ``drop`` points below what it was; None if it never is."""
        return cliff(self.shares, self.acc, self.drop)

    def shown(self) -> Shown:
        beside = self.acc_alone
        columns = ("weights removed", "ACC", *(() if beside is None else ("without the common space",)))
        rows = [
            (percent(share), number(acc), *(() if beside is None else (number(beside[i]),)))
            for i, (share, acc) in enumerate(zip(self.shares, self.acc, strict=True))
        ]
        notes = [_cliff_in_words(self.cliff, self.shares[-1], self.drop)]
        if beside is not None:
            where = _cliff_in_words(cliff(self.shares, beside, self.drop), self.shares[-1], self.drop)
            notes.append(f"Without the common space, which is fixed and not pruned: {where}")
        title = f"ACC of {self.method} · {self.scenario.upper()} with the smallest of {self.weights:,} weights set to 0"
        return Shown(title, columns, tuple(rows), tuple(notes))


def _cliff_in_words(where: float | None, last: float, drop: float) -> str:
    at = f"at {percent(where)} of the weights" if where is not None else f"nowhere up to {percent(last)} of the weights"
    return f"Cliff (ACC more than {drop:g} points below the whole network's): {at}."


def cliff(shares: Iterable[float], acc: Iterable[float], drop: float) -> float | None:
    """The first share at which accuracy is more than ``drop`` below the first."""
    pairs = list(zip(shares, acc, strict=True))
    return next((share for share, value in pairs if pairs[0][1] - value > drop), None)


def prunable(weights: Mapping[str, Tensor]) -> list[str]:
    """Weights of convolutions and linear layers; biases and norm layers, one number per neuron, are no weights."""
    return [name for name, x in weights.items() if name.endswith("weight") and x.ndim >= 2 and x.is_floating_point()]


def pruned(weights: Mapping[str, Tensor], share: float) -> dict[str, Tensor]:
    """The same with the ``share`` of smallest magnitude, of all layers together, set to 0; of equal ones the first."""
    names = prunable(weights)
    flat = torch.cat([weights[name].flatten() for name in names])
    flat[flat.abs().argsort(stable=True)[: round(share * len(flat))]] = 0
    parts = flat.split([weights[name].numel() for name in names])
    return {**weights, **{name: part.view_as(weights[name]) for name, part in zip(names, parts, strict=True)}}


def pruning(
    path: Path,
    *,
    shares: Iterable[float] = SHARES,
    drop: float = DROP,
    data_dir: Path | None = None,
    progress: Progress = lambda *_: None,
    **own: Unpack[Own],
) -> Pruning:
    """Accuracy on every task of a finished run, evaluated anew, at each share of weights removed from its network.

    What a method keeps beside its network (masks, norm copies, class means) stays as it is. SNV's common space, which
    is fixed, hides what becomes of the network, so specialists also answer without it.
    """
    shares = _checked(shares, drop)
    record = load_record(path)
    if record.tasks_done < record.n_tasks:
        raise UserError(
            f"{path} has learned {record.tasks_done} of {record.n_tasks} tasks, and pruning starts from the finished "
            "network. Run the same `snv run` again to finish it."
        )
    run = open_run(path, data_dir, progress, **own)
    if run.config.method == "slda":
        raise UserError("slda trains no network, so there are no weights to prune. Prune a run of another method.")
    state = load_state(RunDirectory(path).task_path(record.n_tasks))["learner"]
    rows, alone = [], []
    with left_as_found():
        torch.set_num_threads(run.environment["threads"])
        for i, share in enumerate(shares):
            progress("evaluating with fewer weights", i, len(shares))
            run.learner.load_state_dict({**state, "network": pruned(state["network"], share)})
            rows.append(_accuracies(run))
            if _has_common(run.learner):
                alone.append(_accuracies_alone(run, run.learner))
    n = sum(state["network"][name].numel() for name in prunable(state["network"]))
    who = (run.config.method, run.config.scenario, run.config.seed)
    return Pruning(*who, shares, tuple(rows), n, float(drop), tuple(alone) or None)


def _accuracies(run: Prepared) -> tuple[float, ...]:
    return tuple(accuracy(run.learner, run.stream.test(t), block) for t, block in enumerate(run.stream.blocks))


def _has_common(learner: Learner[Any]) -> TypeGuard[SNV]:
    return isinstance(learner, SNV) and learner.specialists.common is not None


def _accuracies_alone(run: Prepared, learner: SNV) -> tuple[float, ...]:
    with without_common(learner):
        return _accuracies(run)


@contextmanager
def without_common(learner: SNV) -> Iterator[None]:
    """Specialists answer alone inside the block; if the task is not known, the most confident one."""
    common, config = learner.specialists.common, learner.config
    learner.specialists.common, learner.config = None, dataclasses.replace(config, rule="max-prob")
    try:
        yield
    finally:
        learner.specialists.common, learner.config = common, config


def _checked(shares: Iterable[float], drop: float) -> tuple[float, ...]:
    asked = tuple(float(share) for share in shares)
    if not asked or asked[0] != 0 or asked[-1] >= 1 or any(a >= b for a, b in itertools.pairwise(asked)):
        raise UserError(f"shares begin with 0 and rise, all below 1; got {list(asked)}. Try [0, 0.3, 0.6, 0.9].")
    if drop <= 0:
        raise UserError(f"drop is a loss of ACC in percentage points, above 0; got {drop:g}. Try 10.")
    return asked

"""A recorded run measured again from its checkpoints: is every accuracy what the record says?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

import numpy as np
import torch

from snv.errors import UserError
from snv.runs.details import Details
from snv.runs.directory import RunDirectory, load_record
from snv.runs.evaluate import Answers, answers
from snv.runs.given import Own
from snv.runs.prepare import Prepared, left_as_found, open_run, restore
from snv.runs.progress import Progress
from snv.runs.record import Record


@dataclass(frozen=True)
class Reevaluation:
    """The row of the accuracy matrix after one task: as recorded, and as measured now. Percent, task after task."""

    task: int  # counted from 1
    recorded: tuple[float, ...]
    measured: tuple[float, ...]
    recorded_known: tuple[float, ...]  # of a CIL run: with the task known
    measured_known: tuple[float, ...]
    same_details: bool | None  # whether every class is taken for what it was; None: not recorded for this row

    @property
    def difference(self) -> float:
        """The largest one, in points."""
        pairs = zip(self.recorded + self.recorded_known, self.measured + self.measured_known, strict=True)
        return max(abs(a - b) for a, b in pairs)

    @property
    def same(self) -> bool:
        """Whether all of it is, to the last bit."""
        return self.difference == 0 and self.same_details is not False


def evaluate_run(
    path: Path,
    task: int | None = None,
    *,
    every: bool = False,
    data_dir: Path | None = None,
    progress: Progress = lambda *_: None,
    **own: Unpack[Own],
) -> list[Reevaluation]:
    """The newest checkpoint, the one after ``task`` (counted from 1), or every one kept, on the images of the record.

    What a run was made with of one's own is given again: ``own_method``, ``network``, ``data``.
    """
    record = load_record(path)
    chosen = _chosen(path, record, task, every)
    run = open_run(path, data_dir, progress, **own)
    with left_as_found():
        torch.set_num_threads(run.environment["threads"])
        return [_measured(run, record, path, t, progress) for t in chosen]


def _chosen(path: Path, record: Record, task: int | None, every: bool) -> list[int]:
    """The tasks whose checkpoints are measured, counted from 0."""
    evaluated = [t for t in range(record.tasks_done) if not np.isnan(record.accuracy[t, 0])]
    if not evaluated:
        raise UserError(f"{path} has no accuracy to compare with yet: no task is learned and evaluated.")
    if every:
        kept = [t for t in evaluated if RunDirectory(path).task_path(t + 1).exists()]
        return kept or evaluated[-1:]
    if task is not None and task - 1 not in evaluated:
        have = ", ".join(str(t + 1) for t in evaluated)
        raise UserError(f"The record has accuracies after the tasks {have}; got --task {task}.")
    return evaluated[-1:] if task is None else [task - 1]


def _measured(run: Prepared, record: Record, path: Path, t: int, progress: Progress) -> Reevaluation:
    restore(run.learner, path, t + 1)
    n = t + 1 + int(t + 1 < record.n_tasks and not np.isnan(record.accuracy[t, t + 1]))
    found = [_answers(run, j, None, f"evaluate after task {t + 1}", n, progress) for j in range(n)]
    knows = not np.isnan(record.known[t, : t + 1]).any()
    what = f"evaluate after task {t + 1} with the task known"
    known = [_answers(run, j, True, what, t + 1, progress) for j in range(t + 1)] if knows else []
    return Reevaluation(
        t + 1,
        tuple(record.accuracy[t, :n].tolist()),
        tuple(one.accuracy for one in found),
        tuple(record.known[t, : len(known)].tolist()),
        tuple(one.accuracy for one in known),
        _same_details(run, record, t, found),
    )


def _answers(run: Prepared, j: int, known: bool | None, what: str, n: int, progress: Progress) -> Answers:
    test, block = run.stream.test(j), run.stream.blocks[j]
    return answers(run.learner, test, block, known, lambda share: progress(what, j + share, n))


def _same_details(run: Prepared, record: Record, t: int, found: list[Answers]) -> bool | None:
    """Of the newest row, which is the one that has them."""
    if record.details is None or t + 1 != len(record.details.tasks):
        return None
    now = Details.of([run.stream.names(j) for j in range(t + 1)], found)
    return now.as_json() == record.details.as_json()

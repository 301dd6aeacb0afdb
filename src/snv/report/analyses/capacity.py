"""How a network fills up: neurons and parameters in use after each task, layer by layer, and what tasks share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from snv.errors import UserError
from snv.files import load_state
from snv.report.analyses.finding import Finding, Shown, number
from snv.runs import NeuronTable, Result, RunDirectory, read_results

Bits = NDArray[np.bool_]


@dataclass(frozen=True)
class Capacity(Finding):
    """Shares of the network, task by task; None where it is not known."""

    name: ClassVar[str] = "capacity"
    parameters: tuple[float | None, ...]  # CAP after each task: known where the run kept that task's checkpoint
    neurons: tuple[float | None, ...]  # in use by any task so far
    layers: tuple[str, ...]  # of a method with masks
    by_layer: tuple[tuple[float, ...], ...]  # neurons in use after each task, by task and layer
    own: tuple[float, ...]  # of all neurons, those in each task's mask
    reused: tuple[float, ...]  # of each task's mask, those that were frozen before
    overlap: tuple[tuple[float, ...], ...]  # Jaccard index of every pair of masks

    def shown(self) -> Shown:
        rows = []
        for t, (parameters, neurons) in enumerate(zip(self.parameters, self.neurons, strict=True)):
            shares = [parameters, neurons, *((self.own[t], self.reused[t]) if self.own else (None, None))]
            rows.append((str(t + 1), *(number(None if x is None else 100 * x, 1) for x in shares)))
        pairs = [self.overlap[i][j] for i in range(len(self.overlap)) for j in range(i)]
        notes = (f"Jaccard index of two tasks' masks: {min(pairs):.2f} to {max(pairs):.2f}.",) if pairs else ()
        return Shown(
            f"what {self.method} · {self.scenario.upper()} uses of its network, percent",
            ("after task", "parameters (CAP)", "neurons", "in the task's mask", "of it, frozen before"),
            tuple(rows),
            notes,
        )


def jaccard(masks: Bits) -> NDArray[np.float64]:
    """|A ∩ B| / |A ∪ B| of every pair of rows; 1 for two empty ones."""
    whole = masks.astype(np.float64)
    both, sizes = whole @ whole.T, whole.sum(1)
    either = sizes[:, None] + sizes[None] - both
    index: NDArray[np.float64] = np.divide(both, either, out=np.ones_like(both), where=either > 0)
    return index


def in_use(masks: Bits) -> Bits:
    """Row t: what any of the first t + 1 rows has."""
    return np.logical_or.accumulate(masks, axis=0)


def by_layer(table: NeuronTable, rows: Bits) -> NDArray[np.float64]:
    """The share of each layer's neurons that is True, row by row."""
    starts = np.cumsum((0, *table.sizes[:-1]))
    shares: NDArray[np.float64] = np.add.reduceat(rows.astype(np.float64), starts, axis=1) / np.array(table.sizes)
    return shares


def reused(masks: Bits) -> NDArray[np.float64]:
    """Of each row, the share that an earlier row has."""
    before = np.vstack([np.zeros_like(masks[:1]), in_use(masks)[:-1]])
    shares: NDArray[np.float64] = (masks & before).sum(1) / np.maximum(1, masks.sum(1))
    return shares


def capacity(path: Path) -> Capacity:
    """From the masks and checkpoints of a run; neither data nor a network are needed."""
    (result,) = read_results([path])
    return capacity_of(result)


def capacity_of(result: Result) -> Capacity:
    """What is known of the capacity a run used, task by task."""
    record, table = result.record, result.neurons()
    if record.tasks_done == 0:
        raise UserError(f"{result.path} has not finished its first task, so nothing is in use. Let it run on.")
    n_tasks = record.tasks_done if table is None else min(record.tasks_done, len(table.masks))
    kept = [_recorded(result, t) for t in range(n_tasks)]
    parameters = tuple(None if shares is None else shares["parameters"] for shares in kept)
    who = (result.method, result.scenario, result.seed)
    if table is None:
        neurons = tuple(None if shares is None else shares["neurons"] for shares in kept)
        return Capacity(*who, parameters, neurons, (), (), (), (), ())
    masks = table.masks[:n_tasks]
    used = in_use(masks)
    return Capacity(
        *who,
        parameters,
        _floats(used.mean(1)),
        table.layers,
        tuple(_floats(row) for row in by_layer(table, used)),
        _floats(masks.mean(1)),
        _floats(reused(masks)),
        tuple(_floats(row) for row in jaccard(masks)),
    )


def _recorded(result: Result, t: int) -> dict[str, float] | None:
    """The shares noted after task t (from 0): in its checkpoint, or after the last task in the record."""
    checkpoint = RunDirectory(result.path).task_path(t + 1)
    if checkpoint.exists():
        shares: dict[str, float] | None = load_state(checkpoint)["record"]["capacity"]
        return shares
    return result.record.capacity if t + 1 == result.record.tasks_done else None


def _floats(row: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(float(x) for x in row)

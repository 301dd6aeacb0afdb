"""What the page of runs is drawn from: plain values, made from records alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from snv.errors import UserError
from snv.learners import LEARNERS
from snv.report.assembly import page, write_page
from snv.report.cells import Cell, Column, Table, cell_text
from snv.report.measures import accuracies
from snv.report.packed import PackedNeurons, packed
from snv.report.page_columns import Told, overview
from snv.report.run_details import RunData, Triangle, known, run_data, triangle
from snv.report.standing import Standing, standing
from snv.report.streams import Entry, find_streams, panels
from snv.report.variants import finished
from snv.runs import Result

Matrices = Float64[np.ndarray, "seeds t t"]
Curve = tuple[tuple[float | None, float | None], ...]
"""Mean over seeds and deviation, after each task."""
ROOM = 4_000_000
"""Bytes that tables of neurons may take up in a page."""


@dataclass(frozen=True)
class CellData:
    text: str
    value: float | None
    best: bool
    note: str
    runs: tuple[int, ...] = ()  # places in the list of runs, one per seed
    seeds: tuple[int, ...] = ()


@dataclass(frozen=True)
class RowData:
    """A variant on a stream in a scenario."""

    method: str
    label: str
    group: str
    stream: int
    scenario: str
    borrowed: bool  # read off CIL runs, with the task known
    dashed: bool  # keeps images
    cells: tuple[CellData, ...]  # one per column
    mean: Triangle  # of the accuracy matrices
    deviation: Triangle | None  # None with one seed
    curve: Curve  # mean over tasks so far: its mean and deviation over seeds
    runs: tuple[int, ...]
    seconds: dict[str, float]  # by phase, mean over seeds
    macs: dict[str, float]


@dataclass(frozen=True)
class PanelData:
    stream: int
    scenario: str
    standing: Standing
    rows: tuple[int, ...]


@dataclass(frozen=True)
class RunsPage:
    streams: tuple[dict[str, Any], ...]
    columns: tuple[dict[str, Any], ...]
    rows: tuple[RowData, ...]
    panels: tuple[PanelData, ...]
    runs: tuple[RunData, ...]
    neurons: tuple[PackedNeurons, ...]
    notes: tuple[str, ...]
    kind: str = "runs"


def write_report(results: Sequence[Result], out: Path) -> Path:
    """Write one self-contained page about these runs, and say where it is."""
    if not results:
        raise UserError(
            "A report needs at least one run. Give run directories, or a folder such as results/small-cifar."
        )
    return write_page(page(runs_page(results)), out)


def runs_page(results: Sequence[Result]) -> RunsPage:
    """The data of the page; a record that is given twice counts once."""
    results = list({result.path.resolve(): result for result in results}.values())
    streams = find_streams(results)
    shown = [
        (i, stream, scenario, found) for i, stream in enumerate(streams) for scenario, found in panels(stream).items()
    ]
    table, columns = overview([(stream, found) for _, stream, _, found in shown])
    places = {id(result): i for i, result in enumerate(results)}
    stream_of = {id(result): i for i, stream in enumerate(streams) for result in stream.results}
    tables, neurons, left_out = _neurons(results)
    rows: list[RowData] = []
    made: list[PanelData] = []
    for i, _, scenario, found in shown:
        first = len(rows)
        rows += [_row(entry, i, table, first + k, places) for k, entry in enumerate(found)]
        made.append(PanelData(i, scenario, standing(found), tuple(range(first, len(rows)))))
    return RunsPage(
        tuple(
            {"title": s.title, "data": s.data, "tasks": s.n_tasks, "apart": s.apart, "setup": s.setup} for s in streams
        ),
        tuple(map(_column, columns)),
        tuple(rows),
        tuple(made),
        tuple(run_data(result, stream_of[id(result)], neurons[k]) for k, result in enumerate(results)),
        tuple(tables),
        _notes(results, left_out),
    )


def _column(told: Told) -> dict[str, Any]:
    return {"name": told.column.name, "meaning": told.meaning, "better": told.column.better, "kind": told.column.kind}


# ---- rows


def _row(entry: Entry, stream: int, table: Table, place: int, places: Mapping[int, int]) -> RowData:
    members = list(entry.variant.results.values())
    matrices = np.array([accuracies(result, entry.scenario) for result in members])
    own = [result for result in members if result.scenario == entry.scenario]
    by_path = {result.path: places[id(result)] for result in members}
    card = LEARNERS[entry.method].card if entry.method in LEARNERS else None
    return RowData(
        entry.method,
        entry.label,
        entry.group,
        stream,
        entry.scenario,
        entry.borrowed,
        card is not None and card.stores_images,
        tuple(_cell(c, column, by_path) for c, column in zip(table.rows[place].cells, table.columns, strict=True)),
        triangle(matrices.mean(0)),
        triangle(matrices.std(0, ddof=1)) if len(members) > 1 else None,
        curve(matrices),
        tuple(by_path.values()),
        _mean_by_phase(own, "seconds"),
        _mean_by_phase(own, "macs"),
    )


def _cell(cell: Cell, column: Column, places: Mapping[Path, int]) -> CellData:
    runs = tuple(places[path] for path in cell.runs)
    return CellData(cell_text(cell, column), cell.value, cell.best, cell.note, runs, cell.seeds)


def curve(matrices: Matrices) -> Curve:
    """After each task, the mean accuracy on the tasks so far: its mean over seeds, and its deviation (n − 1)."""
    means = np.array([[row[: i + 1].mean() for i, row in enumerate(matrix)] for matrix in matrices])
    deviations = means.std(0, ddof=1) if len(means) > 1 else np.full(len(means[0]), np.nan)
    return tuple((known(m), known(d)) for m, d in zip(means.mean(0), deviations, strict=True))


def _mean_by_phase(results: Sequence[Result], what: str) -> dict[str, float]:
    costs: list[dict[str, float]] = [found for result in results if (found := result.record.cost.get(what))]
    phases = dict.fromkeys(phase for cost in costs for phase in cost)
    return {phase: sum(cost.get(phase, 0.0) for cost in costs) / len(costs) for phase in phases}


# ---- what is not in the rows


def _neurons(results: Sequence[Result]) -> tuple[list[PackedNeurons], list[int | None], int]:
    """Tables of neurons as long as there is room, which of them is each run's, and how many were left out."""
    tables: list[PackedNeurons] = []
    places: list[int | None] = []
    left_out = 0
    for result in results:
        table = result.neurons()
        small = None if table is None or not len(table.values) else packed(table)
        fits = small is not None and sum(t.n_bytes for t in tables) + small.n_bytes <= ROOM
        left_out += small is not None and not fits
        places.append(len(tables) if fits else None)
        tables += [small] if small is not None and fits else []
    return tables, places, left_out


def _notes(results: Sequence[Result], left_out: int) -> tuple[str, ...]:
    """What a reader might look for and not find."""
    unfinished = len(results) - len(finished(results))
    notes = []
    if unfinished:
        notes.append(f"{_runs(unfinished)} not finished: listed below, counted nowhere.")
    if left_out:
        notes.append(
            f"The neurons of {_runs(left_out)} left out to keep the page small: make a page of that run alone."
        )
    return tuple(notes)


def _runs(n: int) -> str:
    return "1 run is" if n == 1 else f"{n} runs are"

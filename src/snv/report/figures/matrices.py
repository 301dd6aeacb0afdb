"""Accuracy matrices: rows are moments, columns are tasks; a column that fades is a task forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from snv.learners import LEARNERS
from snv.metrics import Matrix
from snv.report.figures.style import MAP, captioned, none_of, on_colour, runs_of, sheet, task_ticks
from snv.report.measures import SCENARIOS
from snv.report.settings import settings_of
from snv.runs import Result

COLUMNS = 6


def matrices(results: Sequence[Result], made_by: str) -> Figure:
    """One panel per method and scenario, mean over seeds; runs under way show what they have."""
    begun = [result for result in results if result.record.tasks_done]
    if not begun:
        raise none_of("learned a task", "snv figure matrices runs/mine")
    rows = rows_of(groups_of(begun))
    n_columns = max(map(len, rows))
    figure = sheet(max(4.2, 2.5 * n_columns + 0.5), 2.75 * len(rows))
    axes = figure.subplots(len(rows), n_columns, squeeze=False)
    image: Any = None
    for line, row in zip(axes, rows, strict=True):
        for axis, group in zip(line, row, strict=False):
            image = draw(axis, np.mean([_learned(result) for result in group], axis=0))
            axis.set_title(heading(group), fontsize=9)
        for axis in line[len(row) :]:
            axis.set_axis_off()
    figure.colorbar(image, ax=axes, label="accuracy, %", shrink=min(1.0, 0.8), aspect=30 if len(rows) > 1 else 18)
    return captioned(
        figure,
        f"Test accuracy on each task (column) after learning each task (row), percent. {runs_of(begun)}; a panel with "
        f"several seeds shows their mean, and ± is their standard deviation (n − 1). Made by: {made_by}",
    )


def groups_of(results: Sequence[Result]) -> list[list[Result]]:
    """Runs that differ in nothing but the seed, and have come equally far."""
    groups: list[list[Result]] = []
    for result in results:
        group = next((group for group in groups if _alike(group[0], result)), None)
        if group is None:
            groups.append([result])
        else:
            group.append(result)
    return groups


def _alike(one: Result, other: Result) -> bool:
    who = [(r.method, r.scenario, r.record.tasks_done, r.record.n_tasks) for r in (one, other)]
    return who[0] == who[1] and settings_of(one) == settings_of(other)


def rows_of(groups: Sequence[list[Result]]) -> list[list[list[Result]]]:
    """TIL first, then CIL, each broken into lines that fit a page."""
    place = {method: i for i, method in enumerate(LEARNERS)}
    ordered = sorted(groups, key=lambda group: place.get(group[0].method, len(place)))
    found = [[group for group in ordered if group[0].scenario == scenario] for scenario in SCENARIOS]
    return [part[i : i + COLUMNS] for part in found for i in range(0, len(part), COLUMNS)]


def draw(axis: Axes, accuracy: Matrix) -> Any:
    """What was learned so far: the lower triangle, with numbers where they can be read."""
    n = len(accuracy)
    shown = np.ma.masked_where((np.triu(np.ones((n, n)), 1) > 0) | np.isnan(accuracy), accuracy)
    image = axis.imshow(shown, vmin=0, vmax=100, cmap=matplotlib.colormaps[MAP])
    if n <= 12:
        for i, j in zip(*np.nonzero(~np.ma.getmaskarray(shown)), strict=True):
            size, colour = 8 if n <= 6 else 6, on_colour(accuracy[i, j] / 100)
            axis.text(j, i, f"{accuracy[i, j]:.0f}", ha="center", va="center", fontsize=size, color=colour)
    task_ticks(axis, n, first=0, y=True)
    axis.tick_params(labelsize=7, length=2)
    axis.set_xlabel("task", fontsize=8)
    axis.set_ylabel("after learning task", fontsize=8)
    axis.spines[["top", "right"]].set_visible(False)
    return image


def heading(group: Sequence[Result]) -> str:
    """Method, scenario, ACC."""
    acc = [value for result in group if (value := result.record.metrics["ACC"]) is not None]
    deviation = f" ± {np.std(acc, ddof=1):.1f}" if len(acc) > 1 else ""
    ending = f"\nACC {np.mean(acc):.1f}{deviation}" if acc else ""
    return f"{group[0].method} · {group[0].scenario.upper()}{ending}"


def _learned(result: Result) -> Matrix:
    n = result.record.tasks_done
    return result.record.accuracy[:n, :n]

"""The metrics explained: which cells of the accuracy matrix each of them reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from snv.metrics import Matrix, summary
from snv.report.figures.style import BLUE, VERMILLION, captioned, sheet, title_of
from snv.runs import Result

MOST = 6
"""Tasks of a run that is taken as the example."""

EXAMPLE = np.array(
    [
        [90.0, 52.0, 49.0, 50.0],
        [78.0, 88.0, 55.0, 51.0],
        [84.0, 80.0, 86.0, 58.0],
        [72.0, 75.0, 81.0, 85.0],
    ]
)
UNTRAINED = np.array([50.0, 48.0, 51.0, 49.0])
"""Made up, so that every metric has something to read."""

Cells = NDArray[np.bool_]


@dataclass(frozen=True)
class Reading:
    """A metric: what it adds, what it takes away, and in words."""

    name: str
    added: Cells
    taken: Cells
    untrained: NDArray[np.bool_]  # of the untrained network's accuracies, taken away too
    formula: str
    words: str


def explained(results: Sequence[Result], made_by: str) -> Figure:
    """ACC, BWT, FWT and forgetting on one accuracy matrix: of a run, if one is given, else a made-up one."""
    accuracy, untrained, whose = _example(results)
    values = summary(accuracy, untrained, None)
    figure = sheet(11.2, 1.5 + 2.15 * (len(accuracy) + 1.35) / len(accuracy))
    for axis, reading in zip(figure.subplots(1, 4), readings(accuracy), strict=True):
        draw(axis, accuracy, untrained, reading)
        axis.set_title(f"{reading.name} = {_signed(reading.name, values[reading.name])}", fontsize=11)
        axis.set_xlabel(f"task $j$\n\n{reading.formula}\n{reading.words}", fontsize=9, linespacing=1.4)
    return captioned(
        figure,
        "What each metric reads in the accuracy matrix: rows are moments (after learning task i, the top row before "
        "any), columns are tasks j. Framed in full and filled: added; hatched with a dashed frame: taken away; the "
        f"metric is the mean over columns. Numbers are percent, {whose}; no error bars. Made by: {made_by}",
    )


def _example(results: Sequence[Result]) -> tuple[Matrix, Matrix, str]:
    for result in results:
        n = result.record.tasks_done
        accuracy = result.record.accuracy[:n, :n]
        if 2 <= n <= MOST and not np.isnan(accuracy[np.tri(n, n, 1, dtype=bool)]).any():
            return accuracy, result.record.untrained[:n], f"of one run, {title_of(result)}"
    return EXAMPLE, UNTRAINED, "made up"


def _signed(name: str, value: float | None) -> str:
    """Differences with their sign, unless they are 0."""
    rounded = round(value or 0.0, 2)
    return f"{rounded:+.2f}".replace("-", "−") if rounded and name != "ACC" else f"{rounded:.2f}"


def readings(accuracy: Matrix) -> list[Reading]:
    """The cells of each metric."""
    n = len(accuracy)
    nothing, no_column = np.zeros((n, n), dtype=bool), np.zeros(n, dtype=bool)
    last, diagonal, earlier = nothing.copy(), np.eye(n, dtype=bool), np.arange(n) < n - 1
    last[-1] = True
    best = nothing.copy()
    for j in range(n - 1):
        best[j + int(np.argmax(accuracy[j:, j])), j] = True
    return [
        Reading("ACC", last, nothing, no_column, r"mean$_j$ $A_{T,j}$", "how good it is at the end"),
        Reading(
            "BWT",
            last & earlier,
            diagonal & earlier,
            no_column,
            r"mean$_{j<T}$ $A_{T,j} - A_{j,j}$",
            "what became of earlier tasks",
        ),
        Reading(
            "forgetting",
            best,
            last & earlier,
            no_column,
            r"mean$_{j<T}$ max$_{i\geq j}$ $A_{i,j} - A_{T,j}$",
            "what was lost since their best",
        ),
        Reading(
            "FWT",
            np.eye(n, k=1, dtype=bool),
            nothing,
            np.arange(n) > 0,
            r"mean$_{j\geq 2}$ $A_{j-1,j} - b_j$",
            "what is known before learning",
        ),
    ]


def draw(axis: Axes, accuracy: Matrix, untrained: Matrix, reading: Reading) -> None:
    """The matrix with the untrained network's row above it."""
    n = len(accuracy)
    for j in range(n):
        _cell(axis, j, -1.25, untrained[j], False, bool(reading.untrained[j]))
        for i in range(n):
            _cell(axis, j, i, accuracy[i, j], bool(reading.added[i, j]), bool(reading.taken[i, j]))
    axis.set_xlim(-0.55, n - 0.45)
    axis.set_ylim(n - 0.45, -1.8)
    axis.set_xticks(range(n), [str(j + 1) for j in range(n)])
    axis.set_yticks([-1.25, *range(n)], ["$b$", *(str(i + 1) for i in range(n))])
    axis.set_ylabel("after task $i$", fontsize=9)
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)


def _cell(axis: Axes, x: float, y: float, value: float, added: bool, taken: bool) -> None:
    read = added or taken
    _frame(axis, x, y, 0.46, facecolor="white", edgecolor="0.85", linewidth=0.8)
    if added:
        _frame(axis, x, y, 0.43, facecolor=BLUE + "40", edgecolor=BLUE, linewidth=1.8)
    if taken:
        _frame(axis, x, y, 0.38, facecolor="none", edgecolor=VERMILLION + "90", linewidth=0, hatch="////")
        _frame(axis, x, y, 0.38, facecolor="none", edgecolor=VERMILLION, linewidth=1.6, linestyle=(0, (3, 1.5)))
    text, colour, weight = (
        "" if np.isnan(value) else f"{value:.0f}",
        "black" if read else "0.6",
        "bold" if read else "normal",
    )
    behind = {"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.75 if taken else 0.0}
    axis.text(x, y, text, ha="center", va="center", fontsize=9, color=colour, fontweight=weight, bbox=behind)


def _frame(axis: Axes, x: float, y: float, half: float, **look: Any) -> None:
    axis.add_patch(Rectangle((x - half, y - half), 2 * half, 2 * half, **look))

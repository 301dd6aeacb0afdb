"""Accuracy matrices as a picture: rows are moments, columns are tasks; a column that fades is a task forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from snv.runs import Record


def matrices_figure(records: Sequence[Record]) -> Figure:
    """One panel per run, methods in columns and scenarios in rows where the runs form such a grid."""
    n_rows = min(2, len(records)) if len(records) % 2 == 0 else 1
    n_columns = -(-len(records) // n_rows)
    figure = Figure(figsize=(3.1 * n_columns, 3.2 * n_rows), layout="constrained")
    axes = np.array(figure.subplots(n_rows, n_columns, squeeze=False)).T.flatten()
    colours = matplotlib.colormaps["viridis"]
    for axis, record in zip(axes, records, strict=False):
        _draw(axis, record, colours)
    figure.suptitle(f"accuracy on each task (percent), one run each, seed {_seeds(records)}", fontsize=10)
    return figure


def save_matrices(records: Sequence[Record], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    matrices_figure(records).savefig(path, dpi=150)


def _draw(axis: Any, record: Record, colours: Any) -> None:
    n = record.tasks_done
    accuracy = record.accuracy[:n, :n]
    shown = np.ma.masked_where((np.triu(np.ones((n, n)), 1) > 0) | np.isnan(accuracy), accuracy)
    axis.imshow(shown, vmin=0, vmax=100, cmap=colours)
    if n <= 12:
        for i, j in zip(*np.nonzero(~np.ma.getmaskarray(shown)), strict=True):
            colour = "black" if accuracy[i, j] > 60 else "white"
            axis.text(j, i, f"{accuracy[i, j]:.0f}", ha="center", va="center", fontsize=8, color=colour)
    ticks = list(range(0, n, max(1, n // 10)))
    axis.set_xticks(ticks, [str(t + 1) for t in ticks])
    axis.set_yticks(ticks, [str(t + 1) for t in ticks])
    axis.set_xlabel("task")
    axis.set_ylabel("after learning task")
    final = record.metrics["ACC"]
    suffix = "" if final is None else f", ACC {final:.1f}"
    axis.set_title(f"{record.config['method']} · {record.config['scenario'].upper()}{suffix}", fontsize=10)


def _seeds(records: Sequence[Record]) -> str:
    return ", ".join(sorted({str(record.config["seed"]) for record in records}))

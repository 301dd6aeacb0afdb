"""Values layer by layer: what share of all value each layer holds, and how it is spread within layers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from snv.report.figures.neurons import short_name, split_by_layer, with_neurons
from snv.report.figures.style import MAP, captioned, sheet, task_ticks, title_of
from snv.runs import NeuronTable, Result

RANKS = 64
"""Columns a layer's neurons are stretched over, best first."""

Numbers = NDArray[np.float64]


def values(results: Sequence[Result], made_by: str) -> Figure:
    """Values layer by layer: what share each holds, task by task, and how they are spread within layers."""
    result, table = with_neurons(results, "values")
    n_tasks, n_layers = len(table.values), len(table.layers)
    shown = list(range(n_tasks)) if n_tasks <= 4 else sorted({0, n_tasks // 3, 2 * n_tasks // 3, n_tasks - 1})
    figure = sheet(3.2 + 0.32 * n_tasks + 1.75 * len(shown), max(3.0, 1.2 + 0.2 * n_layers))
    parts = figure.subplots(1, 1 + len(shown), width_ratios=[max(1.2, 0.3 * n_tasks), *[1.15] * len(shown)])
    shares = layer_shares(table)
    image = parts[0].imshow(shares, aspect="auto", cmap=MAP, vmin=min(0.0, float(shares.min())))
    task_ticks(parts[0], n_tasks, first=0)
    parts[0].set_yticks(range(n_layers), [short_name(name) for name in table.layers], fontsize=7.5)
    parts[0].set_xlabel("task")
    parts[0].set_title("Σφ of the layer, % of Σ|φ|", fontsize=9)
    figure.colorbar(image, ax=parts[0], shrink=0.8, pad=0.03)
    rows = {t: ranked(table, t) for t in shown}
    least = min(-0.05, min(float(part.min()) for part in rows.values()))
    for axis, t in zip(parts[1:], shown, strict=True):
        spread = axis.imshow(rows[t], aspect="auto", cmap=MAP, vmin=least, vmax=1, extent=(0, 100, n_layers, 0))
        axis.set_title(f"task {t + 1}", fontsize=9)
        axis.set_yticks([])
        axis.set_xticks([0, 50, 100])
        axis.set_xlabel("neurons, best first, %", fontsize=8)
    bar = figure.colorbar(spread, ax=list(parts[1:]), shrink=0.8, pad=0.02)
    bar.set_ticks([0, 0.5, 1], labels=["0", "¼ max", "max"])
    bar.set_label("value φ (root scale)", fontsize=8)
    return captioned(
        figure,
        f"Values of neurons of {title_of(result)} by layer (input above). Left: the sum of each layer's values as a "
        "share of the sum of all magnitudes, by task. Right: the values themselves, the neurons of a layer side by "
        "side from best to worst, as signed square roots relative to the task's largest; reused neurons included. One "
        f"run, no error bars. Made by: {made_by}",
    )


def layer_shares(table: NeuronTable) -> Numbers:
    """Σφ of each layer (row) in percent of Σ|φ| of all, for each task (column); 0 where nothing is worth anything."""
    values = np.nan_to_num(table.values.astype(np.float64))
    sums = np.array([part.sum(axis=-1) for part in split_by_layer(table, values)])
    whole = np.abs(values).sum(axis=-1)
    shares: Numbers = 100 * np.divide(sums, whole, out=np.zeros_like(sums), where=whole > 0)
    return shares


def ranked(table: NeuronTable, t: int) -> Numbers:
    """A row per layer: signed roots of its values over the largest of all, best first, stretched to one length."""
    task = np.nan_to_num(table.values[t].astype(np.float64))
    scaled = np.sign(task) * np.sqrt(np.abs(task) / max(1e-30, np.abs(task).max()))
    places = (np.arange(RANKS) + 0.5) / RANKS
    return np.array([np.sort(part)[::-1][(places * len(part)).astype(int)] for part in split_by_layer(table, scaled)])

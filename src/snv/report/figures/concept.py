"""The concept as a picture: the neurons of a network, coloured by the task that froze them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray

from snv.report.figures.neurons import short_name, split_by_layer, with_neurons
from snv.report.figures.style import MAP, captioned, on_colour, sheet, title_of
from snv.runs import NeuronTable, Result

FREE = "#ffffff"


def concept(results: Sequence[Result], made_by: str) -> Figure:
    """The network's neurons, a row of squares for each layer, coloured by the task that froze them."""
    result, table = with_neurons(results, "concept")
    first, colours = frozen_by(table.masks), task_colours(len(table.masks))
    n_layers, width = len(table.sizes), max(table.sizes)
    figure = sheet(8.6, max(2.6, 0.8 + 0.24 * n_layers))
    axis = figure.subplots()
    for i, tasks in enumerate(in_order(table, first)):
        _draw_layer(axis, i, tasks, colours, width)
    axis.set_xlim(0, 1.09 * width)
    axis.set_ylim(n_layers, 0)
    axis.set_yticks(np.arange(n_layers) + 0.5, [short_name(name) for name in table.layers], fontsize=7.5)
    axis.set_xlabel("neurons of the layer, in the order in which tasks froze them")
    axis.tick_params(axis="y", length=0)
    axis.spines[:].set_visible(False)
    _legend(figure, colours)
    return captioned(
        figure,
        f"Neurons of {title_of(result)}, a row per layer (input above), coloured and numbered by the task that froze "
        f"them. After {len(table.masks)} tasks {100 * float((first >= 0).mean()):.0f} % are frozen; later tasks also "
        f"use what earlier ones froze. One run, no error bars. Made by: {made_by}",
    )


def _draw_layer(axis: Axes, y: int, tasks: NDArray[np.int64], colours: Sequence[Any], width: int) -> None:
    """A row of squares, numbers where there is room, and how many of them are frozen."""
    squares = [[(x, y + 0.05), (x + 1, y + 0.05), (x + 1, y + 0.95), (x, y + 0.95)] for x in range(len(tasks))]
    faces = [FREE if t < 0 else colours[t] for t in tasks]
    edges = ["0.75" if t < 0 else "white" for t in tasks]
    line = min(0.5, 60 / width)
    axis.add_collection(PolyCollection(squares, facecolors=faces, edgecolors=edges, linewidths=line))
    _number_runs(axis, tasks, y, width, len(colours))
    words = f"{int((tasks >= 0).sum())} of {len(tasks)}"
    axis.text(len(tasks) + 0.01 * width, y + 0.5, words, va="center", fontsize=7, color="0.35")


def _legend(figure: Figure, colours: Sequence[Any]) -> None:
    handles = [Patch(facecolor=colour, edgecolor="white", label=f"task {t + 1}") for t, colour in enumerate(colours)]
    handles.append(Patch(facecolor=FREE, edgecolor="0.6", label="free"))
    figure.legend(
        handles=handles,
        loc="outside upper center",
        ncols=min(len(handles), 11),
        fontsize=7.5,
        frameon=False,
        handlelength=1,
        handleheight=1,
        columnspacing=1,
    )


def frozen_by(masks: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The first task (from 0) that has each neuron; −1: none has."""
    first: NDArray[np.int64] = np.where(masks.any(0), masks.argmax(0), -1)
    return first


def task_colours(n_tasks: int) -> list[Any]:
    """From dark to light, in the order of tasks."""
    return list(matplotlib.colormaps[MAP](np.linspace(0.04, 0.98, n_tasks)))


def in_order(table: NeuronTable, first: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Of each layer the tasks of its neurons, rising; free ones (−1) last."""
    return [np.concatenate([np.sort(part[part >= 0]), part[part < 0]]) for part in split_by_layer(table, first)]


def _number_runs(axis: Axes, tasks: NDArray[np.int64], y: int, width: int, n_tasks: int) -> None:
    """The number of the task in the middle of its stretch, where there is room."""
    for t in range(n_tasks):
        places = np.nonzero(tasks == t)[0]
        if len(places) >= 0.017 * width * len(str(t + 1)):
            colour = on_colour(0.04 + 0.94 * t / max(1, n_tasks - 1))
            axis.text(places.mean() + 0.5, y + 0.52, str(t + 1), ha="center", va="center", fontsize=7, color=colour)

"""What tasks share: the Jaccard index of every pair of task masks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from snv.report.analyses.capacity import jaccard
from snv.report.figures.neurons import with_neurons
from snv.report.figures.style import MAP, captioned, on_colour, sheet, task_ticks, title_of
from snv.runs import Result


def overlap(results: Sequence[Result], made_by: str) -> Figure:
    """Jaccard index of every pair of task masks."""
    result, table = with_neurons(results, "overlap")
    index = jaccard(table.masks)
    n = len(index)
    figure = sheet(max(3.8, 1.6 + 0.38 * n), max(3.0, 0.8 + 0.36 * n))
    axis = figure.subplots()
    shown = np.ma.masked_where(np.triu(np.ones((n, n)), 1) > 0, index)
    image = axis.imshow(shown, vmin=0, vmax=1, cmap=MAP)
    if n <= 12:
        for i, j in np.argwhere(np.tri(n, dtype=bool)).tolist():
            colour = on_colour(index[i, j])
            axis.text(
                j, i, f"{index[i, j]:.2f}"[int(index[i, j] < 1) :], ha="center", va="center", fontsize=7, color=colour
            )
    task_ticks(axis, n, first=0, y=True)
    axis.set_xlabel("task")
    axis.set_ylabel("task")
    axis.spines[["top", "right"]].set_visible(False)
    figure.colorbar(image, ax=axis, label="Jaccard index |A ∩ B| / |A ∪ B|", shrink=0.85)
    off = index[np.tril_indices(n, -1)]
    between = f"Between tasks it lies from {off.min():.2f} to {off.max():.2f}. " if len(off) else ""
    return captioned(
        figure,
        f"Overlap of the tasks' masks in {title_of(result)}: 1 is the same neurons, 0 none in common. {between}"
        f"One run, no error bars. Made by: {made_by}",
    )

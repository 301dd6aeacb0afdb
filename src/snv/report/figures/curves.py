"""Accuracy after each task: the mean over the tasks learned so far, one line per method, one panel per stream."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from snv.metrics import Matrix
from snv.report.figures.style import (
    End,
    captioned,
    label_ends,
    line_of,
    none_of,
    plain,
    runs_of,
    sheet,
    stream_of,
    task_ticks,
)
from snv.report.measures import SCENARIOS, accuracies
from snv.report.variants import Variant, find_variants, finished, labelled
from snv.runs import Result

LONG = 24
"""Characters of a difference that stands beside a line."""

Lines = dict[tuple[int, str, str], list[tuple[str, Variant]]]
"""Labelled variants by panel: number of tasks, stream, scenario."""


def curves(results: Sequence[Result], made_by: str) -> Figure:
    """Mean accuracy on the tasks learned so far, after each of them."""
    panels = panels_of(results)
    if not panels:
        raise none_of("learned all its tasks", "snv figure curves results/small-cifar")
    streams = list(dict.fromkeys(key[:2] for key in panels))
    scenarios = [scenario for scenario in SCENARIOS if any(key[2] == scenario for key in panels)]
    most = max(map(len, panels.values()))
    figure = sheet(1 + 4.4 * len(scenarios), max(3.3, 0.4 + 0.21 * most) * len(streams))
    axes = figure.subplots(len(streams), len(scenarios), squeeze=False)
    for row, stream in zip(axes, streams, strict=True):
        for axis, scenario in zip(row, scenarios, strict=True):
            draw(axis, panels.get((*stream, scenario), []), scenario)
            axis.set_title(f"{scenario.upper()}: {stream[1]}", fontsize=10, loc="left")
    shown = {result.path: result for lines in panels.values() for _, v in lines for result in v.results.values()}
    other = any(v.scenario != r.scenario for lines in panels.values() for _, v in lines for r in v.results.values())
    borrowed = " TIL of methods that train alike in both is that of their CIL runs where there is no other." * other
    left_out = len(results) - len(finished(results))
    return captioned(
        figure,
        f"Accuracy after each task: mean test accuracy on the tasks learned so far. {runs_of([*shown.values()])}; "
        "lines are means over seeds, bands ± one standard deviation (n − 1), none where there is one seed. Dashed: "
        f"images of old tasks are stored. A single point: known after the last task only."
        f"{borrowed}"
        f"{f' {left_out} unfinished runs left out.' if left_out else ''} Made by: {made_by}",
    )


def panels_of(results: Sequence[Result]) -> Lines:
    """Finished variants, those of one method and panel told apart by what differs."""
    panels: Lines = {}
    for scenario in SCENARIOS:
        for variants in find_variants(finished(results), scenario).values():
            by_stream: dict[tuple[int, str, str], list[Variant]] = {}
            for variant in variants:
                first = next(iter(variant.results.values()))
                by_stream.setdefault((first.record.n_tasks, stream_of(first), scenario), []).append(variant)
            for key, alike in by_stream.items():
                panels.setdefault(key, []).extend(zip(names_of(alike), alike, strict=True))
    return dict(sorted(panels.items(), key=lambda panel: panel[0][:2]))


def names_of(variants: Sequence[Variant]) -> list[str]:
    """The method, with what sets each variant apart if there are several, or in short the name it was kept under."""
    method = variants[0].method
    if len(variants) == 1:
        return [method]
    kept = [next(iter(variant.results.values())).path.stem.split("-seed")[0] for variant in variants]
    found = labelled(variants)
    return [f"{method} ({what if len(what) <= LONG else name})" for what, name in zip(found, kept, strict=True)]


def draw(axis: Axes, lines: Sequence[tuple[str, Variant]], scenario: str) -> None:
    ends = []
    n = 1
    before: dict[str, int] = {}  # variants of each method so far
    for label, variant in lines:
        mean, deviation = course(variant, scenario)
        n, style = len(mean), line_of(variant.method, before.setdefault(variant.method, 0))
        before[variant.method] += 1
        x = np.arange(1, n + 1)
        axis.plot(x, mean, clip_on=False, **style)
        if deviation is not None:
            axis.fill_between(x, mean - deviation, mean + deviation, color=style["color"], alpha=0.16, linewidth=0)
        ends.append(End(float(mean[-1]), label, style))
    plain(axis, "tasks learned", "accuracy so far, %")
    task_ticks(axis, n)
    axis.set_ylim(top=min(100.5, axis.get_ylim()[1] + 1), bottom=max(0, axis.get_ylim()[0]))
    label_ends(axis, n, ends)


def course(variant: Variant, scenario: str) -> tuple[Matrix, Matrix | None]:
    """Mean over seeds of the accuracy so far, task by task, and its deviation if there are several seeds."""
    rows = np.array([so_far(accuracies(result, scenario)) for result in variant.results.values()])
    return rows.mean(0), rows.std(0, ddof=1) if len(rows) > 1 else None


def so_far(accuracy: Matrix) -> NDArray[np.float64]:
    """Mean over j ≤ i of A[i, j], for each i."""
    return np.array([row[: i + 1].mean() for i, row in enumerate(accuracy)])

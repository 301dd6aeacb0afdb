"""Accuracy while more and more of the smallest weights are removed, and the cliff of each method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from snv.errors import UserError
from snv.metrics import Matrix
from snv.report.analyses.finding import load_finding
from snv.report.analyses.pruning import Pruning, cliff
from snv.report.figures.curves import names_of
from snv.report.figures.style import (
    End,
    captioned,
    hollow,
    label_ends,
    line_of,
    none_of,
    plain,
    runs_of,
    sheet,
    stream_of,
)
from snv.report.measures import SCENARIOS
from snv.report.variants import find_variants
from snv.runs import Result


def pruning(results: Sequence[Result], made_by: str) -> Figure:
    """ACC by share of weights removed; a vertical tick where the cliff is."""
    found = [(result, one) for result in results if (one := load_finding(Pruning, result.path)) is not None]
    if not found:
        raise none_of("been pruned", "snv analyse pruning RUNS, then snv figure pruning RUNS")
    scenarios = [scenario for scenario in SCENARIOS if any(result.scenario == scenario for result, _ in found)]
    figure = sheet(1 + 4.4 * len(scenarios), 3.6)
    for axis, scenario in zip(figure.subplots(1, len(scenarios), squeeze=False)[0], scenarios, strict=True):
        own = {result.path: (result, one) for result, one in found if result.scenario == scenario}
        draw(axis, [result for result, _ in own.values()], {path: one for path, (_, one) in own.items()}, scenario)
        streams = dict.fromkeys(stream_of(result) for result, _ in own.values())
        axis.set_title(f"{scenario.upper()}: {'; '.join(streams)}", fontsize=10, loc="left")
    drops = sorted({one.drop for _, one in found})
    shown = [result for result, _ in found]
    return captioned(
        figure,
        "Test accuracy over all tasks (ACC) while the weights of smallest magnitude, of all convolutions and linear "
        f"layers together, are set to 0. {runs_of(shown)}; lines are means over seeds, bands ± one standard deviation "
        "(n − 1). Black rings, and shares beside the names: the cliff, the first share at which mean ACC is more than "
        f"{drops[0]:g} points below that of the whole network. Masks, norm copies, class means and fixed spaces are "
        "not pruned; “alone”: without the fixed common space. Dashed: images of old tasks are stored. "
        f"Made by: {made_by}",
    )


def draw(axis: Axes, results: Sequence[Result], found: Mapping[Path, Pruning], scenario: str) -> None:
    """A line per variant, and one without the common space where there is one."""
    ends, last = [], 0.0
    for variants in find_variants(results, scenario).values():
        for i, (name, variant) in enumerate(zip(names_of(variants), variants, strict=True)):
            pruned, style = [found[result.path] for result in variant.results.values()], line_of(variant.method, i)
            shares = 100 * np.array(pruned[0].shares)
            last = max(last, float(shares[-1]))
            ends.append(_line(axis, name, shares, [one.acc for one in pruned], pruned[0].drop, style))
            if alone := [acc for one in pruned if (acc := one.acc_alone) is not None]:
                ends.append(_line(axis, f"{name} alone", shares, alone, pruned[0].drop, hollow(style)))
    plain(axis, "weights removed, %", "ACC, %")
    axis.set_ylim(0, min(100.5, axis.get_ylim()[1] + 1))
    label_ends(axis, last, ends)


def _line(
    axis: Axes, label: str, shares: Matrix, acc: Sequence[Sequence[float]], drop: float, style: dict[str, Any]
) -> End:
    """Mean over seeds with its band and its cliff."""
    if any(len(row) != len(shares) for row in acc):
        raise UserError(f"The runs of {label} were pruned at different shares. Repeat: snv analyse pruning RUNS")
    mean = np.mean(acc, axis=0)
    axis.plot(shares, mean, clip_on=False, **style)
    if len(acc) > 1:
        deviation = np.std(acc, axis=0, ddof=1)
        axis.fill_between(shares, mean - deviation, mean + deviation, color=style["color"], alpha=0.16, linewidth=0)
    if (where := cliff(shares, mean, drop)) is None:
        return End(float(mean[-1]), label, style)
    at = float(mean[list(shares).index(where)])
    axis.plot(where, at, marker="o", markersize=12, markerfacecolor="none", markeredgecolor="black", zorder=6)
    return End(float(mean[-1]), f"{label}: {where:.0f} %", style)

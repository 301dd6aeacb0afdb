"""What methods cost, as bars: operations and time by kind of work, memory, and what is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from snv.learners import LEARNERS
from snv.report.analyses.costs import PHASES, Costs, recorded_costs
from snv.report.figures.curves import names_of
from snv.report.figures.style import (
    BLUE,
    GREEN,
    HATCHES,
    ORANGE,
    PURPLE,
    SKY,
    captioned,
    none_of,
    plain,
    runs_of,
    sheet,
    stream_of,
)
from snv.report.measures import SCENARIOS
from snv.report.variants import find_variants, finished
from snv.runs import Result

COLOURS = dict(zip(PHASES, (BLUE, ORANGE, GREEN, SKY), strict=True))


def costs(results: Sequence[Result], made_by: str) -> Figure:
    """Four panels of horizontal bars, a row per method and scenario."""
    groups = rows_of([result for result in results if result.record.cost.get("seconds")])
    if not groups:
        raise none_of("learned all its tasks and recorded its costs", "snv figure costs results/small-cifar")
    figure = sheet(11.5, max(2.4, 1.1 + 0.27 * len(groups)))
    operations, time, memory, kept = figure.subplots(1, 4, sharey=True, width_ratios=[1.5, 1.5, 1, 1])
    found = [[recorded_costs(result.record) for result in group] for group in groups.values()]
    stacked(operations, found, lambda cost: {kind: n / 1e12 for kind, n in cost.macs.items()}, "tera-MACs")
    stacked(time, found, lambda cost: {kind: s / 60 for kind, s in cost.seconds.items()}, "minutes")
    single(memory, found, lambda cost: cost.peak_bytes, 2**30, "peak memory, GiB")
    single(kept, found, lambda cost: cost.bytes_kept, 2**20, "kept, MiB")
    operations.set_yticks(range(len(groups)), list(groups), fontsize=8)
    operations.invert_yaxis()
    handles, labels = operations.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=len(labels), fontsize=8, frameon=False)
    shown = [result for group in groups.values() for result in group]
    return captioned(
        figure,
        f"What methods cost: {', '.join(dict.fromkeys(map(stream_of, shown)))}. Bars are means over seeds "
        f"({runs_of(shown)}), whiskers ± one standard deviation (n − 1) of the whole bar. train: all updates of "
        "weights; value: valuation or importance; keep: certificates, statistics, exemplars; evaluate: the accuracy "
        "matrix; kept: beyond the network, after the last task. MACs are multiply-accumulates, half as many as FLOPs; "
        f"minutes are those of the machine each run was made on. Made by: {made_by}",
    )


def rows_of(results: Sequence[Result]) -> dict[str, list[Result]]:
    """Finished runs by method, scenario and what else differs, in the catalogue's order."""
    groups: dict[str, list[Result]] = {}
    for scenario in SCENARIOS:
        own = [result for result in finished(results) if result.scenario == scenario]
        found = find_variants(own, scenario)
        for variants in (found[method] for method in LEARNERS if method in found):
            for name, variant in zip(names_of(variants), variants, strict=True):
                groups[f"{name} · {scenario.upper()}"] = list(variant.results.values())
    return groups


def stacked(
    axis: Axes, rows: Sequence[Sequence[Costs]], parts: Callable[[Costs], dict[str, float]], label: str
) -> None:
    """Each kind of work as a piece of the bar."""
    places, left = np.arange(len(rows)), np.zeros(len(rows))
    found = [[parts(cost) for cost in row] for row in rows]
    kinds = [*PHASES, *sorted({kind for row in found for one in row for kind in one if kind not in PHASES})]
    for i, kind in enumerate(kinds):
        lengths = np.array([np.mean([one.get(kind, 0.0) for one in row]) for row in found])
        if not lengths.any():
            continue
        colour = COLOURS.get(kind, PURPLE)
        axis.barh(
            places,
            lengths,
            0.72,
            left,
            color=colour,
            hatch=HATCHES[i % len(HATCHES)],
            edgecolor="white",
            linewidth=0.4,
            label=kind,
        )
        left += lengths
    _whiskers(axis, [[sum(one.values()) for one in row] for row in found])
    plain(axis, label, "", grid="x")


def single(
    axis: Axes, rows: Sequence[Sequence[Costs]], of: Callable[[Costs], int | None], unit: float, label: str
) -> None:
    """One number per bar."""
    numbers = [[n / unit for cost in row if (n := of(cost)) is not None] for row in rows]
    places = range(len(rows))
    lengths = [float(np.mean(row)) if row else 0.0 for row in numbers]
    axis.barh(places, lengths, 0.72, color="0.6", edgecolor="white")
    most = max(lengths) or 1.0
    for place, length, row in zip(places, lengths, numbers, strict=True):
        text = f" {length:.3g}" if row else " not recorded"
        end = length + (float(np.std(row, ddof=1)) if len(row) > 1 else 0.0)
        axis.text(end, place, text, va="center", fontsize=7, color="black" if row else "0.5")
    axis.set_xlim(0, 1.35 * most)
    _whiskers(axis, numbers)
    plain(axis, label, "", grid="x")


def _whiskers(axis: Axes, numbers: Sequence[Sequence[float]]) -> None:
    for place, row in enumerate(numbers):
        if len(row) > 1:
            deviation = float(np.std(row, ddof=1))
            axis.errorbar(float(np.mean(row)), place, xerr=deviation, ecolor="black", elinewidth=1, capsize=2)

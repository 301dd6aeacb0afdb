"""How a network fills up, and what capacity buys: (a) the share in use after each task, (b) accuracy by c."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from snv.learners import LEARNERS
from snv.report.analyses.capacity import Capacity, capacity_of
from snv.report.analyses.finding import load_finding
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
    task_ticks,
)
from snv.report.measures import SCENARIOS, metric
from snv.report.variants import find_variants, finished
from snv.runs import Result

C = "learner.capacity"
"""The setting that paper and library call c."""


def capacity(results: Sequence[Result], made_by: str) -> Figure:
    """Both panels, or the one there are runs for."""
    filled, swept = courses(results), sweeps(results)
    if not filled and not swept:
        raise none_of("masks of neurons, or a sibling with another learner.capacity", "snv figure capacity runs/snv")
    panels = [name for name, found in (("a", filled), ("b", swept)) if found]
    figure = sheet(1 + 4.6 * len(panels), 3.7)
    for axis, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        if panel == "a":
            _draw_courses(axis, filled)
        else:
            _draw_sweeps(axis, swept)
    shown = [result for _, group in filled.values() for result, _ in group]
    shown += [result for points in swept.values() for group in points.values() for result in group]
    unique = list({result.path: result for result in shown}.values())
    parts = {
        "a": "(a) Share of the network in use after each task: solid, neurons of all masks together; dotted, the "
        "parameters they read (CAP), where every task's checkpoint was kept.",
        "b": "(b) ACC by c, the share of neurons (wsn: of weights) a task may keep.",
    }
    return captioned(
        figure,
        f"{' '.join(parts[panel] for panel in panels)} {runs_of(unique)}; points are means over seeds, bands and "
        f"whiskers ± one standard deviation (n − 1), none where there is one seed. Made by: {made_by}",
    )


# ---- (a)


Courses = dict[str, tuple[dict[str, Any], list[tuple[Result, Capacity]]]]
"""What runs used task by task, and how their line is drawn, by method, scenario and c."""


def courses(results: Sequence[Result]) -> Courses:
    """Of finished runs, but not of methods that grow or use everything at once."""
    found: Courses = {}
    for scenario in SCENARIOS:
        own = [result for result in finished(results) if result.scenario == scenario and not _grows(result.method)]
        for variants in find_variants(own, scenario).values():
            for i, (name, variant) in enumerate(zip(names_of(variants), variants, strict=True)):
                group = [(r, load_finding(Capacity, r.path) or capacity_of(r)) for r in variant.results.values()]
                if _fills(group[0][1]):
                    c = variant.settings.get(C)
                    label = f"{name} · {scenario.upper()}" + (f", c = {c:g}" if c and len(variants) == 1 else "")
                    found[label] = line_of(variant.method, i), group
    return found


def _grows(method: str) -> bool:
    return method in LEARNERS and LEARNERS[method].card.grows


def _fills(used: Capacity) -> bool:
    """Whether something is known of the time before the last task, and something was free then."""
    known = [x for x in (*used.neurons[:-1], *used.parameters[:-1]) if x is not None]
    return bool(known) and min(known) < 1


def _draw_courses(axis: Axes, found: Courses) -> None:
    ends, longest = [], 1
    for label, (style, group) in found.items():
        for part, look in (("neurons", style), ("parameters", hollow(style))):
            rows = np.array([[np.nan if x is None else 100 * x for x in getattr(used, part)] for _, used in group])
            if np.isfinite(rows).all(0).sum() < 2:
                continue
            mean, x = rows.mean(0), np.arange(1, rows.shape[1] + 1)
            longest = max(longest, len(mean))
            axis.plot(x, mean, clip_on=False, **look)
            if len(rows) > 1:
                spread = rows.std(0, ddof=1)
                axis.fill_between(x, mean - spread, mean + spread, color=look["color"], alpha=0.16, linewidth=0)
            ends.append(End(float(mean[-1]), f"{label}: {part}", look))
    plain(axis, "tasks learned", "in use, % of the network")
    axis.set_title("(a) capacity over tasks", fontsize=10, loc="left")
    axis.set_ylim(0, max(100, axis.get_ylim()[1]))
    task_ticks(axis, longest)
    label_ends(axis, longest, ends)


# ---- (b)


def sweeps(results: Sequence[Result]) -> dict[tuple[str, str], dict[float, list[Result]]]:
    """Runs that differ in c alone, and how many seeds each c has, by method and scenario: the largest such family."""
    families: dict[tuple[str, str], dict[float, list[Result]]] = {}
    for scenario in SCENARIOS:
        own = [result for result in finished(results) if result.scenario == scenario]
        for method, variants in find_variants(own, scenario).items():
            points: list[tuple[dict[str, object], dict[float, list[Result]]]] = []
            for variant in variants:
                if (c := variant.settings.get(C)) is None:
                    continue
                rest = {name: value for name, value in variant.settings.items() if name != C}
                family = next((by_c for other, by_c in points if rest == other), None)
                if family is None:
                    points.append((rest, family := {}))
                family[float(c)] = list(variant.results.values())
            largest = max((by_c for _, by_c in points), key=len, default={})
            if len(largest) > 1:
                families[method, scenario] = dict(sorted(largest.items()))
    return families


def _draw_sweeps(axis: Axes, found: dict[tuple[str, str], dict[float, list[Result]]]) -> None:
    ends = []
    for (method, scenario), by_c in found.items():
        acc = [[x for r in group if (x := metric(r, "ACC", scenario)) is not None] for group in by_c.values()]
        mean, style = [float(np.mean(row)) for row in acc], line_of(method)
        deviation = [float(np.std(row, ddof=1)) if len(row) > 1 else np.nan for row in acc]
        axis.errorbar(list(by_c), mean, yerr=deviation, capsize=3, clip_on=False, **style)
        ends.append(End(mean[-1], f"{method} · {scenario.upper()}", style))
    plain(axis, "c (log scale)", "ACC, %")
    axis.set_title("(b) accuracy by c", fontsize=10, loc="left")
    asked = sorted({c for by_c in found.values() for c in by_c})
    axis.set_xscale("log")
    axis.set_xlim(0.8 * asked[0], 1.15 * asked[-1])
    axis.set_xticks(asked, [f"{c:g}" for c in asked], fontsize=8)
    axis.set_xticks([], minor=True)
    low, high = axis.get_ylim()
    axis.set_ylim(max(0, low - 2), min(100.5, high + 2))
    label_ends(axis, asked[-1], ends)

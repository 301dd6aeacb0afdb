"""Figures by name: functions from records to a matplotlib Figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from snv.errors import unknown
from snv.report.figures.bars import costs
from snv.report.figures.concept import concept
from snv.report.figures.curves import curves
from snv.report.figures.explained import explained
from snv.report.figures.filling import capacity
from snv.report.figures.matrices import matrices
from snv.report.figures.overlap import overlap
from snv.report.figures.style import caption_of, save_figure
from snv.report.figures.values import values
from snv.report.figures.weights import pruning
from snv.runs import Result

__all__ = ["FIGURES", "Drawing", "caption_of", "figure", "save_figure"]


@dataclass(frozen=True)
class Drawing:
    """A figure that can be asked for."""

    make: Callable[[Sequence[Result], str], Figure]  # from runs, and the command that makes it
    summary: str
    needs: str  # of the runs


FIGURES: dict[str, Drawing] = {
    "concept": Drawing(concept, "neurons of the network, coloured by the task that froze them", "masks of one run"),
    "explained": Drawing(explained, "which cells of the accuracy matrix each metric reads", "nothing, or a run"),
    "curves": Drawing(curves, "accuracy after each task, one line per method", "finished runs"),
    "pruning": Drawing(pruning, "accuracy while weights are removed, the cliff marked", "snv analyse pruning"),
    "capacity": Drawing(capacity, "(a) capacity over tasks, (b) accuracy by c", "masks, snv analyse capacity"),
    "costs": Drawing(costs, "operations and time by kind of work, memory and bytes kept", "finished runs"),
    "matrices": Drawing(matrices, "accuracy on every task after every task", "runs, finished or not"),
    "values": Drawing(values, "values of neurons layer by layer, for each task", "values of one run"),
    "overlap": Drawing(overlap, "which neurons tasks share: Jaccard index of their masks", "masks of one run"),
}


def figure(name: str, results: Sequence[Result] = (), made_by: str | None = None) -> Figure:
    """A figure of the study, made from runs alone; ``made_by`` is the command its caption names."""
    if name not in FIGURES:
        raise unknown("figure", name, FIGURES)
    return FIGURES[name].make(results, made_by or f'snv.report.figure("{name}", results)')

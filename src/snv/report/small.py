"""The small streams: every method of the catalogue in both scenarios, beside what the paper prints."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from snv.learners import LEARNERS
from snv.report.cells import NOT_DEFINED, Cell, Column, Row, Table, with_best
from snv.report.measures import SCENARIOS
from snv.report.paper import PRINTED_AS, Printed, chosen_capacity, paper_value, row_name
from snv.report.rows import accuracy_cell, difference_cell, group_of, in_groups, notes_on, printed_cell, title_of
from snv.report.settings import check_one_stream, has_stream
from snv.report.variants import Variant, find_variants, labelled, missing
from snv.runs import Result

PAPER_STREAMS = {"cifar100": "cifar-100", "tiny-imagenet": "tiny-imagenet"}
"""Our data sets as the paper's tables of both scenarios call them."""

Found = Mapping[str, Mapping[str, list[Variant]]]
"""Variants by scenario and method."""


def small(results: Sequence[Result], against: str) -> Table:
    """ACC and BWT of all methods in TIL and CIL and, of a stream of the paper, its ACC and the difference to it.

    ``against``: the method others are compared with.
    """
    check_one_stream(results)
    found = {scenario: find_variants(results, scenario) for scenario in SCENARIOS}
    stream = paper_stream(results)
    columns = tuple(column for scenario in SCENARIOS for column in _columns(scenario, bool(stream)))
    rows = [row for method in LEARNERS for row in _rows(method, found, against, stream)]
    made = with_best(Table("small", f"All methods: {title_of(results)}", columns, in_groups(rows)))
    return dataclasses.replace(made, notes=(*notes_on(made, against, results), *([PAPER] if stream else [])))


PAPER = (
    "Paper: ACC as printed, of a ResNet-18 of width 64 trained for up to 200 epochs a task; of SNV in TIL at the "
    "c = 0.1 it chose, of WSN at the c that was run, else at 0.5."
)


def paper_stream(results: Sequence[Result]) -> str:
    """The column of the paper's tables with these data in as many tasks, or nothing."""
    for ours, theirs in PAPER_STREAMS.items():
        for n_tasks in (10, 20):
            if results and has_stream(results[0], ours, n_tasks):
                return f"{theirs}/{n_tasks}"
    return ""


def _columns(scenario: str, beside_paper: bool) -> list[Column]:
    group = scenario.upper()
    paper = [Column("paper", group), Column("difference", group, signed=True)] if beside_paper else []
    return [Column("ACC", group, better="higher"), Column("BWT", group), *paper, Column("seeds", group, kind="runs")]


def _rows(method: str, found: Found, against: str, stream: str) -> list[Row]:
    """A row per variant of a method, usually one; settings are named where there are several."""
    variants = [labelled(found[scenario].get(method, [])) for scenario in SCENARIOS]
    labels = list(dict.fromkeys(label for several in variants for label in several)) or [""]
    rows = []
    for label in labels:
        cells = [
            cell
            for scenario, several in zip(SCENARIOS, variants, strict=True)
            for cell in _cells(method, scenario, several.get(label), found[scenario].get(against, []), stream)
        ]
        rows.append(Row(f"{method} ({label})" if label else method, tuple(cells), group_of(method)))
    return rows


def _cells(
    method: str, scenario: str, variant: Variant | None, references: Sequence[Variant], stream: str
) -> list[Cell]:
    """ACC, BWT, the paper's ACC and the difference to it, and seeds."""
    printed = printed_cell(printed_for(method, scenario, variant, stream))
    if variant is None:
        acc, bwt, seeds = missing(method, scenario), Cell(text=NOT_DEFINED), Cell(text=NOT_DEFINED)
    else:
        acc, bwt, seeds = accuracy_cell(variant, references), variant.metric("BWT"), variant.seeds
    return [acc, bwt, *([printed, difference_cell(acc, printed)] if stream else []), seeds]


def printed_for(method: str, scenario: str, variant: Variant | None, stream: str) -> Printed | None:
    """What the paper prints for a method: for WSN at the c that was run, for SNV at the c the paper chose."""
    if method not in PRINTED_AS:
        return None
    capacity = variant.settings["learner.capacity"] if variant and method == "wsn" else chosen_capacity(method)
    return paper_value("til" if scenario == "til" else "cil", row_name(method, scenario, capacity), stream)

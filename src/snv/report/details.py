"""All metrics of all methods in one scenario, and what they keep and how long they take to answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from snv.learners import LEARNERS
from snv.report.cells import NOT_DEFINED, Cell, Column, Row, Table, with_best
from snv.report.measures import MEASURES
from snv.report.rows import accuracy_cell, group_of, in_groups, notes_on, title_of
from snv.report.settings import check_one_stream
from snv.report.variants import Variant, find_variants, labelled, missing
from snv.runs import Result

METRICS = (
    Column("ACC", better="higher"),
    Column("AvgAcc", better="higher"),
    Column("BWT"),
    Column("forgetting"),
    Column("FWT"),
    Column("PS", better="higher"),
)
COSTS = ("CAP", "kept", "latency 1", "latency 64")


def details_til(results: Sequence[Result], against: str) -> Table:
    """Every metric with the task known."""
    return _details("til", results, against)


def details_cil(results: Sequence[Result], against: str) -> Table:
    """Every metric with the task not known."""
    return _details("cil", results, against)


def _details(scenario: str, results: Sequence[Result], against: str) -> Table:
    check_one_stream(results)
    found = find_variants(results, scenario)
    costs = tuple(Column(m.heading, digits=m.digits, better=m.better) for m in (MEASURES[name] for name in COSTS))
    others = found.get(against, [])
    rows = [row for method in LEARNERS for row in _rows(method, scenario, found.get(method, []), others)]
    title = f"All metrics in {scenario.upper()}: {title_of(results)}"
    columns = (*METRICS, *costs, Column("seeds", kind="runs"))
    made = with_best(Table(f"details-{scenario}", title, columns, in_groups(rows)))
    return dataclasses.replace(made, notes=notes_on(made, against, results))


def _rows(method: str, scenario: str, variants: Sequence[Variant], references: Sequence[Variant]) -> list[Row]:
    group, blank = group_of(method), Cell(text=NOT_DEFINED)
    if not variants:
        n_blank = len(METRICS) + len(COSTS)
        return [Row(method, (missing(method, scenario), *n_blank * (blank,)), group)]
    return [
        Row(f"{method} ({label})" if label else method, tuple(_cells(variant, references)), group)
        for label, variant in labelled(variants).items()
    ]


def _cells(variant: Variant, references: Sequence[Variant]) -> list[Cell]:
    metrics = [variant.metric(column.name) for column in METRICS[1:]]
    return [
        accuracy_cell(variant, references),
        *metrics,
        *(variant.measure(name) for name in COSTS),
        variant.seeds,
    ]

"""The paper's table of costs: operations, time, memory, latency and accuracy of each method, ten tasks in CIL."""

from __future__ import annotations

from collections.abc import Sequence

from snv.learners import LEARNERS
from snv.report.cells import NOT_DEFINED, Cell, Column, Row, Table
from snv.report.paper import PRINTED_AS, paper_value
from snv.report.rows import printed_cell
from snv.report.settings import check_one_stream, description, has_stream
from snv.report.variants import Variant, find_variants, labelled, missing
from snv.runs import Result

DATA = (("cifar100", "cifar-100"), ("tiny-imagenet", "tiny-imagenet"), ("imagenet-1k", "imagenet-1k"))
PAIRS = (
    ("operations", "teraFLOPs", "operations, 10¹²", 2),
    ("learning", "minutes", "minutes", 1),
    ("peak", "GB", "GB", 2),
    ("latency 1", "milliseconds", "ms per image", 2),
)
"""Ours, the paper's, heading, digits."""
NOTES = (
    "Ours: operations are multiply-accumulates of learning, forward and backward; minutes are of learning, on a CPU; "
    "GB are the most memory the process held, in GiB.",
    "The paper: FLOPs are its total of multiply-accumulates; minutes, GB and milliseconds are of a GPU.",
)


def costs(results: Sequence[Result]) -> Table:
    """What ten tasks in CIL cost."""
    rows: list[Row] = []
    notes: list[str] = []
    for ours, theirs in DATA:
        mine = [r for r in results if has_stream(r, ours, 10) and r.scenario == "cil"]
        check_one_stream(mine)
        notes += [f"Ours, {ours}: {description(mine)}."] if mine else []
        found, group = find_variants(mine, "cil"), f"{ours}, CIL, 10 tasks"
        rows += [row for method in LEARNERS for row in _rows(method, found.get(method, []), theirs, group)]
    columns = [Column(who, heading, digits=n) for *_, heading, n in PAIRS for who in ("ours", "paper")]
    accuracies = (Column("ours", "ACC"), Column("paper", "ACC"), Column("seeds", kind="runs"))
    return Table("cost", "Costs", (*columns, *accuracies), tuple(rows), notes=(*NOTES, *notes))


def _rows(method: str, variants: Sequence[Variant], data: str, group: str) -> list[Row]:
    """A row per variant of a method, or one without numbers of ours."""
    printed, metrics = PRINTED_AS.get(method, ""), [metric for _, metric, *_ in PAIRS]
    theirs = [printed_cell(paper_value("cost", printed, data, metric)) for metric in (*metrics, "ACC")]
    if not variants:
        blank = Cell(text=NOT_DEFINED)
        ours = [missing(method, "cil"), *len(PAIRS) * [blank]]
        return [Row(method, (*_beside(ours, theirs), blank), group)]
    return [
        Row(f"{method} ({label})" if label else method, (*_beside(_measured(variant), theirs), variant.seeds), group)
        for label, variant in labelled(variants).items()
    ]


def _measured(variant: Variant) -> list[Cell]:
    return [*(variant.measure(name) for name, *_ in PAIRS), variant.metric("ACC")]


def _beside(ours: Sequence[Cell], theirs: Sequence[Cell]) -> list[Cell]:
    return [cell for pair in zip(ours, theirs, strict=True) for cell in pair]

"""The paper's tables of accuracies: ImageNet-1k, TIL with the sweep of c, and CIL, ours beside each printed number."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from snv.learners import LEARNERS
from snv.report.cells import NOT_DEFINED, Cell, Column, Row, Table, with_best
from snv.report.paper import CAPACITIES, PRINTED_AS, Printed, Sequences, paper_value
from snv.report.rows import GROUPS, accuracy_cell, difference_cell, group_of, notes_on, printed_cell
from snv.report.settings import check_one_stream, description, has_stream
from snv.report.variants import Variant, find_variants, labelled, missing
from snv.runs import Result

METRICS = ("ACC", "BWT", "PS")


@dataclass(frozen=True)
class Stream:
    """A part of a table of the paper, and where its numbers are."""

    data: str  # our name
    n_tasks: int
    scenario: str
    table: Sequences
    column: str

    @property
    def heading(self) -> str:
        return f"{self.data}, {self.scenario.upper()}, {self.n_tasks} tasks"


SMALL_IMAGES = (("cifar100", "cifar-100"), ("tiny-imagenet", "tiny-imagenet"))
IMAGENET = tuple(
    Stream("imagenet-1k", n, scenario, "imagenet-1k", f"{scenario.upper()}/{n}")
    for scenario in ("cil", "til")
    for n in (10, 20, 50)
)
TIL = tuple(Stream(ours, n, "til", "til", f"{theirs}/{n}") for ours, theirs in SMALL_IMAGES for n in (10, 20))
CIL = tuple(Stream(ours, n, "cil", "cil", f"{theirs}/{n}") for ours, theirs in SMALL_IMAGES for n in (10, 20))


def imagenet(results: Sequence[Result], against: str) -> Table:
    """ImageNet-1k in CIL and TIL, 10, 20 and 50 tasks."""
    return _table("imagenet", "ImageNet-1k", IMAGENET, results, against)


def til(results: Sequence[Result], against: str) -> Table:
    """CIFAR-100 and Tiny-ImageNet in TIL, 10 and 20 tasks, SNV and WSN at five capacities."""
    return _table("til", "TIL on CIFAR-100 and Tiny-ImageNet", TIL, results, against)


def cil(results: Sequence[Result], against: str) -> Table:
    """CIFAR-100 and Tiny-ImageNet in CIL, 10 and 20 tasks."""
    return _table("cil", "CIL on CIFAR-100 and Tiny-ImageNet", CIL, results, against)


COLUMNS = (
    Column("ours", "ACC", better="higher"),
    Column("paper", "ACC"),
    Column("difference", "ACC", signed=True),
    Column("ours", "BWT"),
    Column("paper", "BWT"),
    Column("ours", "PS"),
    Column("paper", "PS"),
    Column("seeds", kind="runs"),
)


def _table(name: str, title: str, streams: Sequence[Stream], results: Sequence[Result], against: str) -> Table:
    rows: list[Row] = []
    ours: list[str] = []
    used: list[Result] = []
    for stream in streams:
        mine = [result for result in results if has_stream(result, stream.data, stream.n_tasks)]
        check_one_stream(mine)
        rows += _rows(stream, mine, against)
        used += mine
        ours += [f"Ours, {stream.data}, {stream.n_tasks} tasks: {description(mine)}."] if mine else []
    made = with_best(Table(name, title, COLUMNS, tuple(rows)))
    notes = (*notes_on(made, against, used), *dict.fromkeys(ours), PAPER_RUNS, PAPER_UNITS[streams[0].table])
    return dataclasses.replace(made, notes=notes)


PAPER_RUNS = "The paper: ResNet-18 of width 64, at most 200 epochs a task (ImageNet-1k 100), ten seeds."
PAPER_UNITS = {
    "cil": "The paper prints BWT as a fraction here; it is given in points.",
    "til": "The paper's c is a share of all neurons; `snv` counts as its settings say.",
    "imagenet-1k": "BWT as printed: of SNV in CIL a fraction, it seems, of the others points.",
}


def _rows(stream: Stream, results: Sequence[Result], against: str) -> list[Row]:
    """All methods of a stream, those that keep as much together."""
    found = find_variants(results, stream.scenario)
    rows = [
        Row(label, tuple(_cells(method, stream, variant, printed, found.get(against, []))), group)
        for method in LEARNERS
        for label, variant, printed in _entries(method, stream, found.get(method, []))
        if (group := f"{stream.heading}, {group_of(method)}")
    ]
    order = [f"{stream.heading}, {group}" for group in GROUPS]
    return sorted(rows, key=lambda row: order.index(row.group))


Entry = tuple[str, Variant | None, str]
"""A row's label, its runs if there are some, and the row of the paper."""


def _entries(method: str, stream: Stream, variants: Sequence[Variant]) -> list[Entry]:
    """The rows of a method: one per c where the paper sweeps c, else one, or one per variant."""
    printed = PRINTED_AS.get(method, "")
    if stream.table == "til" and printed in ("SNV", "WSN"):
        return _sweep(method, printed, variants)
    return _named(method, variants, printed)


def _named(name: str, variants: Sequence[Variant], printed: str) -> list[Entry]:
    """A row per variant, or one without runs."""
    if not variants:
        return [(name, None, printed)]
    return [(f"{name} ({label})" if label else name, v, printed) for label, v in labelled(variants).items()]


def _sweep(method: str, printed: str, variants: Sequence[Variant]) -> list[Entry]:
    """A row per c of the paper, and of any other c that was run."""
    found: list[Entry] = []
    for capacity in sorted({*CAPACITIES, *(float(variant.settings["learner.capacity"]) for variant in variants)}):
        mine = [variant for variant in variants if variant.settings["learner.capacity"] == capacity]
        found += _named(f"{method} c={capacity:g}", mine, f"{printed} c={capacity:g}")
    return found


def _cells(
    method: str, stream: Stream, variant: Variant | None, printed: str, references: Sequence[Variant]
) -> list[Cell]:
    """Ours and the paper's of each metric, the difference of ACC, seeds."""
    theirs = [printed_cell(_printed(printed, stream, metric)) for metric in METRICS]
    blank = Cell(text=NOT_DEFINED)
    ours, seeds = [missing(method, stream.scenario), blank, blank], blank
    if variant is not None:
        ours = [accuracy_cell(variant, references), variant.metric("BWT"), variant.metric("PS")]
        seeds = variant.seeds
    acc, bwt, ps = zip(ours, theirs, strict=True)
    return [*acc, difference_cell(*acc), *bwt, *ps, seeds]


def _printed(row: str, stream: Stream, metric: str) -> Printed | None:
    """What the paper prints, BWT in percentage points as ours is; its table of CIL has fractions."""
    found = paper_value(stream.table, row, stream.column, metric)
    return Printed(100 * found.value) if found and metric == "BWT" and stream.table == "cil" else found

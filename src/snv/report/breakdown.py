"""Where the time of a valuation goes: the paper's breakdown of ten tasks, and ours where it can be told apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from snv.report.cells import NOT_DEFINED, NOT_RUN, SEVERAL, Cell, Column, Row, Table
from snv.report.measures import MEASURES, seconds, valuation_seconds
from snv.report.paper import as_printed, paper
from snv.report.rows import printed_cell
from snv.report.settings import check_one_stream, description, has_stream
from snv.report.variants import Variant, cell_of, find_variants
from snv.runs import Result

DATA = (("cifar100", "cifar-100"), ("tiny-imagenet", "tiny-imagenet"))
TRAINING = ("train", "consolidate")

Reading = Callable[[Result], float | None]


def _per_task(*phases: str) -> Reading:
    """Mean seconds of a task."""
    return lambda result: None if (s := seconds(result, *phases)) is None else s / result.record.n_tasks


def _minutes(*phases: str) -> Reading:
    return lambda result: None if (s := seconds(result, *phases)) is None else s / 60


def _share(result: Result) -> float | None:
    training, valuation = seconds(result, *TRAINING), valuation_seconds(result)
    return valuation * result.record.n_tasks / training if training and valuation is not None else None


ROWS: dict[str, tuple[str, Reading | None]] = {
    "training of a task, s": ("snv", _per_task(*TRAINING)),
    "forward passes, s": ("snv", None),
    "truncation and bandit, s": ("snv", None),
    "mask, s": ("snv", _per_task("cut")),
    "valuation, s": ("snv", valuation_seconds),
    "valuation over training": ("snv", _share),
    "training of all tasks, min": ("snv", _minutes(*TRAINING)),
    "valuation of all tasks, min": ("snv", _minutes("value")),
    "SNV, min": ("snv", MEASURES["learning"].of),
    "EWC, min": ("ewc", MEASURES["learning"].of),
}
"""The paper's rows: whose run tells it, and how; None where our valuation has no such part."""


def breakdown(results: Sequence[Result]) -> Table:
    """Seconds and minutes of ten tasks in CIL, with SNV's own estimator."""
    found = {ours: _variants(results, ours) for ours, _ in DATA}
    rows = [
        Row(name, tuple(cell for ours, theirs in DATA for cell in (_ours(found[ours], name), _paper(theirs, name))))
        for name in ROWS
    ]
    columns = tuple(Column(who, ours) for ours, _ in DATA for who in ("ours", "paper"))
    notes = [
        f"Ours, {ours}: {description(list(variant.results.values()))}, neurons valued by "
        f"{variant.settings['learner.estimator']}; no record tells the parts of a valuation apart."
        for ours, variants in found.items()
        for variant in variants.get("snv", [])
    ]
    notes.append("The paper's sums have nine valuations of ten tasks; its valuation leaves out the mask.")
    return Table("valuation", "Where the time of a valuation goes", columns, tuple(rows), "part", tuple(notes))


def _variants(results: Sequence[Result], data: str) -> dict[str, list[Variant]]:
    """Ten tasks of a data set in CIL, by method."""
    mine = [result for result in results if has_stream(result, data, 10) and result.scenario == "cil"]
    check_one_stream(mine)
    return find_variants(mine, "cil")


def _ours(variants: Mapping[str, list[Variant]], name: str) -> Cell:
    method, reading = ROWS[name]
    if reading is None:
        return Cell(text=NOT_DEFINED)
    mine = variants.get(method, [])
    if len(mine) != 1:
        return Cell(text=SEVERAL if mine else NOT_RUN)
    runs = mine[0].results
    return cell_of({seed: reading(result) for seed, result in runs.items()}, runs)


def _paper(data: str, name: str) -> Cell:
    return printed_cell(as_printed(paper()["valuation"][data][name]))

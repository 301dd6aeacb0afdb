"""The paper's ablation of estimators, (a) Monte Carlo, (b) with truncation, (c) TMAB, and ours beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from snv.report.cells import NOT_DEFINED, NOT_RUN, Cell, Column, Row, Table, with_best
from snv.report.measures import MEASURES, SCENARIOS, valuation_seconds
from snv.report.paper import as_printed, paper
from snv.report.rows import printed_cell, title_of
from snv.report.variants import Variant, cell_of, find_variants
from snv.runs import Result

PAPER = {"montecarlo": "(a) Monte Carlo", "truncated": "(b) with truncation", "tmab": "(c) TMAB"}
OURS = ("gradient", "hybrid", "in-run")
OWN = ("learner.estimator", "learner.draws", "learner.floor", "learner.confidence")
"""Settings of an estimator, in which rows may differ."""
COLUMNS = (
    Column("ours, s", "valuation of a task", digits=1, better="lower"),
    Column("paper, min", "valuation of a task", digits=1),
    Column("ours", "all tasks, min", digits=1, better="lower"),
    Column("paper", "all tasks, min", digits=1),
    Column("ours", "ACC", better="higher"),
    Column("paper", "ACC"),
    Column("paper", "deviation of a value", digits=3),
    Column("seeds", kind="runs"),
)


def estimators(results: Sequence[Result]) -> Table:
    """Runs of `snv` that differ in nothing but the estimator; of several families, the one with most estimators."""
    found = family(results)
    names = dict.fromkeys([*PAPER, *OURS, *found])
    rows = [Row(_label(name), tuple(_cells(name, found.get(name)))) for name in names]
    runs = [result for variant in found.values() for result in variant.results.values()]
    notes = (
        f"Ours: {title_of(runs)}; (c) with the repair that makes it stop.",
        "The paper: CIFAR-100 in CIL, ten tasks; records keep no deviation of a value.",
    )
    return with_best(Table("estimators", "Estimators of neuron values", COLUMNS, tuple(rows), "estimator", notes))


def family(results: Sequence[Result]) -> Mapping[str, Variant]:
    """Variants by estimator that agree in everything else."""
    families: list[tuple[object, dict[str, Variant]]] = []
    for variant in _of_snv(results):
        rest = variant.scenario, {name: value for name, value in variant.settings.items() if name not in OWN}
        found = next((family for other, family in families if other == rest), None)
        if found is None:
            families.append((rest, found := {}))
        found.setdefault(variant.settings["learner.estimator"], variant)
    return max((family for _, family in families), key=len, default={})


def _of_snv(results: Sequence[Result]) -> list[Variant]:
    """All variants, of runs in their own scenario."""
    own = {scenario: [result for result in results if result.scenario == scenario] for scenario in SCENARIOS}
    return [variant for scenario in SCENARIOS for variant in find_variants(own[scenario], scenario).get("snv", [])]


def _label(estimator: str) -> str:
    return f"{PAPER[estimator]}, `{estimator}`" if estimator in PAPER else f"`{estimator}`"


def _cells(estimator: str, variant: Variant | None) -> list[Cell]:
    printed = paper()["estimators"].get(PAPER.get(estimator, ""), {})
    valuation, total, acc, deviation = (
        printed_cell(as_printed(printed.get(name)))
        for name in ("valuation of a task, min", "all tasks, min", "ACC", "deviation of a value")
    )
    if variant is None:
        blank = Cell(text=NOT_DEFINED)
        return [Cell(text=NOT_RUN), valuation, blank, total, blank, acc, deviation, blank]
    seconds = cell_of({seed: valuation_seconds(r) for seed, r in variant.results.items()}, variant.results)
    minutes = cell_of({seed: MEASURES["learning"].of(r) for seed, r in variant.results.items()}, variant.results)
    return [seconds, valuation, minutes, total, variant.metric("ACC"), acc, deviation, variant.seeds]

"""Things that were tried and did not help: what each costs against the same run without it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from snv.report.cells import NOT_DEFINED, NOT_RUN, Cell, Column, Row, Table
from snv.report.measures import metric
from snv.report.paired import FEWEST, paired
from snv.report.rows import title_of
from snv.report.settings import Settings, check_one_stream
from snv.report.variants import Variant, find_variants
from snv.runs import Result

HALF = 0.5
"""The largest c of the paper's tables."""


@dataclass(frozen=True)
class Trial:
    """A setting, the values of it that were tried, and those of the runs they are compared with."""

    words: str
    setting: str  # of the method
    tried: Callable[[Any], bool]
    label: Callable[[Any], str]
    usual: Callable[[Any], bool]
    expected: tuple[Any, ...]  # values that stand in the table also without a run

    @property
    def name(self) -> str:
        """The setting's dotted name."""
        return f"learner.{self.setting}"


TRIALS = (
    Trial("c above 0.5", "capacity", lambda c: c > HALF, lambda c: f"c = {c:g}", lambda c: c <= HALF, (0.7, 0.9)),
    Trial(
        "no cumulative mask",
        "cumulative",
        lambda on: on is False,
        lambda _: "only the newest task is frozen",
        lambda on: on is True,
        (False,),
    ),
    Trial(
        "frozen weights released",
        "released",
        lambda share: share > 0,
        lambda share: f"{100 * share:g} %",
        lambda share: share == 0,
        (0.01, 0.02, 0.03, 0.05),
    ),
    Trial(
        "no reuse of frozen neurons",
        "reuse",
        lambda how: how == "none",
        lambda _: "frozen neurons stay out",
        lambda how: how != "none",
        ("none",),
    ),
    Trial(
        "small buffers",
        "buffer",
        lambda n: n is not None,
        lambda n: f"{n:,} images",
        lambda n: n is None,
        (60,),
    ),
)
"""What the paper tried (a buffer it has only for other methods), by settings of ours."""


def tried(results: Sequence[Result]) -> Table:
    """Runs of one stream with one such setting, and how far they are from those without it."""
    check_one_stream(results)
    variants = [
        variant
        for scenario in ("til", "cil")
        for own in find_variants([r for r in results if r.scenario == scenario], scenario).values()
        for variant in own
    ]
    columns = (
        Column("ACC"),
        Column("minus without it", signed=True),
        Column("compared with", kind="words"),
        Column("BWT"),
        Column("CAP"),
        Column("seeds", kind="runs"),
    )
    rows = tuple(row for trial in TRIALS for row in _rows(trial, variants))
    notes = (
        "Differences are means over common seeds, of runs that differ in this setting alone; of several with smaller "
        f"c, the largest. Intervals: 95 %, Student's t. Asterisk: p < 0.05, at least {FEWEST} seeds.",
        "Exact values, which stop at 16 neurons: `snv analyse exact RUN`.",
    )
    return Table("tried", f"What did not help: {title_of(results)}", columns, rows, label="tried", notes=notes)


def _rows(trial: Trial, variants: Sequence[Variant]) -> list[Row]:
    """A row per variant with the setting, and one for each expected value without a run, by value."""
    found = [(v.settings[trial.name], v) for v in variants if trial.name in v.settings]
    found = [(value, v) for value, v in found if trial.tried(value)]
    rows = [(value, Row(_label(trial, value, v), _cells(v, trial, variants), trial.words)) for value, v in found]
    blank = (Cell(text=NOT_RUN), *[Cell(text=NOT_DEFINED)] * 5)
    missing = [value for value in trial.expected if value not in [known for known, _ in found]]
    rows += [(value, Row(trial.label(value), blank, trial.words)) for value in missing]
    return [row for _, row in sorted(rows, key=lambda pair: str(pair[0]))]


def _label(trial: Trial, value: Any, variant: Variant) -> str:
    return f"{trial.label(value)} · {variant.method} · {variant.scenario.upper()}"


def _cells(variant: Variant, trial: Trial, variants: Sequence[Variant]) -> tuple[Cell, ...]:
    reference = _reference(variant, trial, variants)
    difference, words = Cell(text=NOT_DEFINED), NOT_DEFINED
    if reference is not None:
        difference = _difference(variant.results, reference.results, variant.scenario)
        words = f"{trial.setting}={reference.settings[trial.name]}"
    numbers = variant.metric("BWT"), variant.measure("CAP")
    return variant.metric("ACC"), difference, Cell(text=words), *numbers, variant.seeds


def _reference(variant: Variant, trial: Trial, variants: Sequence[Variant]) -> Variant | None:
    """The variant that differs in this setting alone and has a usual value; of several, the largest."""
    name = trial.name
    rest = _without(variant.settings, name)
    usual = [
        other
        for other in variants
        if (other.method, other.scenario) == (variant.method, variant.scenario)
        and _without(other.settings, name) == rest
        and trial.usual(other.settings[name])
    ]
    return max(usual, key=lambda other: str(other.settings[name]), default=None)


def _without(settings: Settings, name: str) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if key != name}


def _difference(seeds: Mapping[int, Result], reference: Mapping[int, Result], scenario: str) -> Cell:
    found = paired(seeds, reference, lambda result: metric(result, "ACC", scenario))
    if found is None:
        return Cell(text=NOT_DEFINED)
    paths = tuple(seeds[seed].path for seed in found.seeds)
    return Cell(found.mean, seeds=found.seeds, runs=paths, interval=found.interval, p=found.p)

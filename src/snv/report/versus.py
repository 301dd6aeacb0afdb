"""One method against all others on a stream, seed by seed, in both scenarios."""

from __future__ import annotations

from collections.abc import Sequence

from snv.errors import unknown
from snv.learners import LEARNERS
from snv.report.cells import NOT_DEFINED, SEVERAL, Cell, Column, Row, Table
from snv.report.measures import SCENARIOS, metric
from snv.report.paired import FEWEST, paired
from snv.report.rows import group_of, in_groups, title_of
from snv.report.settings import check_one_stream
from snv.report.variants import Variant, find_variants, missing
from snv.runs import Result


def versus(results: Sequence[Result], against: str) -> Table:
    """ACC minus that of a method with the same seed: mean, 95 % interval, and p from three seeds on."""
    if against not in LEARNERS:
        raise unknown("method", against, LEARNERS)
    check_one_stream(results)
    found = {scenario: find_variants(results, scenario) for scenario in SCENARIOS}
    rows = [
        Row(method, tuple(cell for s in SCENARIOS for cell in _cells(method, s, found[s], against)), group_of(method))
        for method in LEARNERS
        if method != against
    ]
    columns = tuple(
        column
        for scenario in SCENARIOS
        for column in (
            Column("difference of ACC", scenario.upper(), signed=True),
            Column("common seeds", scenario.upper(), kind="runs"),
        )
    )
    note = (
        f"95 % interval of Student's t. Asterisk: p < 0.05, paired t test, {FEWEST} common seeds or more, uncorrected."
    )
    return Table("versus", f"ACC minus that of {against}: {title_of(results)}", columns, in_groups(rows), notes=(note,))


def _cells(method: str, scenario: str, found: dict[str, list[Variant]], against: str) -> tuple[Cell, Cell]:
    """The difference, and the seeds it was made of; its records are those of both."""
    mine, theirs = found.get(method, []), found.get(against, [])
    if len(mine) != 1:
        return Cell(text=SEVERAL) if mine else missing(method, scenario), Cell(text=NOT_DEFINED)
    if len(theirs) != 1:
        return Cell(text=f"{against}: {SEVERAL}" if theirs else f"no run of {against}"), Cell(text=NOT_DEFINED)
    runs, others = mine[0].results, theirs[0].results
    if (mean := paired(runs, others, lambda result: metric(result, "ACC", scenario))) is None:
        return Cell(text="no common seed"), Cell(text=NOT_DEFINED)
    records = tuple(runs[seed].path for seed in mean.seeds)
    note = "minus " + ", ".join(others[seed].path.as_posix() for seed in mean.seeds)
    difference = Cell(mean.mean, seeds=mean.seeds, runs=records, interval=mean.interval, p=mean.p, note=note)
    return difference, Cell(seeds=mean.seeds, runs=records)

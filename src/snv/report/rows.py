"""What tables of methods share: who competes with whom, who is tested against whom, what the paper has beside it."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from snv.learners import LEARNERS
from snv.report.cells import NOT_DEFINED, Cell, Row, Table
from snv.report.measures import metric
from snv.report.paired import FEWEST, paired
from snv.report.paper import Printed
from snv.report.settings import description, settings_of
from snv.report.variants import Variant
from snv.runs import Result

GROUPS = ("keeps no image", "keeps images", "all images at hand")
"""Of methods that compete with each other."""


def group_of(method: str) -> str:
    card = LEARNERS[method].card
    return GROUPS[2] if card.sees == "all tasks" else GROUPS[1] if card.stores_images else GROUPS[0]


def in_groups(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Rows of a group together."""
    return tuple(sorted(rows, key=lambda row: GROUPS.index(row.group)))


def accuracy_cell(variant: Variant, references: Sequence[Variant]) -> Cell:
    """ACC, with p of a paired t test against the reference, if that is one variant of another method."""
    cell = variant.metric("ACC")
    if len(references) != 1 or references[0].method == variant.method:
        return cell
    found = paired(variant.results, references[0].results, lambda result: metric(result, "ACC", variant.scenario))
    return dataclasses.replace(cell, p=found.p if found else None)


def printed_cell(printed: Printed | None) -> Cell:
    if printed is None:
        return Cell(text=NOT_DEFINED)
    return Cell(printed.value, printed.deviation, note="as the paper prints it")


def difference_cell(ours: Cell, printed: Cell) -> Cell:
    """Ours minus the paper's."""
    if ours.value is None or printed.value is None:
        return Cell(text=NOT_DEFINED)
    return Cell(ours.value - printed.value, seeds=ours.seeds, runs=ours.runs)


def notes_on(table: Table, against: str, results: Sequence[Result]) -> tuple[str, ...]:
    """What the marks of a table mean, as far as it has some, and in which numbers its runs were trained."""
    return (*_marks_on(table, against), *_numbers_of(results))


def _numbers_of(results: Sequence[Result]) -> Iterator[str]:
    """The precision of the records that say it, and how many do not: older ones."""
    said = Counter(result.record.cost.get("computed", {}).get("precision") for result in results)
    silent = said.pop(None, 0)
    if said:
        parts = [f"{number} {name}" for name, number in sorted(said.items())]
        parts += [f"{silent} older and do not say it" if silent else ""]
        yield f"Numbers of training, by records: {', '.join(filter(None, parts))}."


def _marks_on(table: Table, against: str) -> tuple[str, ...]:
    cells = [cell for row in table.rows for cell in row.cells]
    seeds = "Mean ± standard deviation (n − 1) over the seeds named."
    best = " Bold: the best mean of a group." if any(cell.best for cell in cells) else ""
    if all(cell.p is None for cell in cells):
        return (seeds + best,)
    test = f"paired t test over at least {FEWEST} common seeds, not corrected for their number"
    return (seeds + best, f"Asterisk: ACC differs from that of {against}, p < 0.05 ({test}).")


def title_of(results: Sequence[Result]) -> str:
    """The stream of runs that share one."""
    if not results:
        return "no runs yet"
    told = settings_of(results[0])
    size = ", ".join(
        words.format(told[f"data.{name}"])
        for name, words in (("classes", "{} classes"), ("size", "{} pixels"))
        if told[f"data.{name}"] is not None
    )
    parts = [told["data.name"], size, f"{results[0].record.n_tasks} tasks", description(results)]
    return ", ".join(part for part in parts if part)

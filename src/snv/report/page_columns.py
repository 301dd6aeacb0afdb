"""The columns of the page's table: what they hold, how it is written, and what it means in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from snv.learners import LEARNERS
from snv.report.cells import NOT_DEFINED, Cell, Column, Row, Table, with_best
from snv.report.measures import MEASURES
from snv.report.rows import printed_cell
from snv.report.small import printed_for
from snv.report.standing import difference
from snv.report.streams import Entry, Stream


@dataclass(frozen=True)
class Told:
    """A column and where its cells come from: an entry, the best entry of its panel, its stream."""

    column: Column
    meaning: str
    cell: Callable[[Entry, Entry, Stream], Cell]


def _metric(name: str, meaning: str, better: bool = True) -> Told:
    column = Column(name, better="higher" if better else "")
    return Told(column, meaning, lambda entry, _best, _stream: entry.variant.metric(name))


def _cost(name: str, meaning: str) -> Told:
    """A measure of the runs themselves."""
    column = Column(MEASURES[name].heading, digits=MEASURES[name].digits, better=MEASURES[name].better)
    return Told(column, meaning, lambda entry, _best, _stream: entry.variant.measure(name))


def _behind(entry: Entry, best: Entry, _stream: Stream) -> Cell:
    """Paired difference of ACC to the best of the panel."""
    if entry is best:
        return Cell(text="best")
    if (found := difference(entry, best)) is None:
        return Cell(text="no common seed")
    return Cell(found.mean, None, found.seeds, (), interval=found.interval, p=found.p)


def _paper(entry: Entry, _best: Entry, stream: Stream) -> Cell:
    if entry.method not in LEARNERS:
        return Cell(text=NOT_DEFINED)
    return printed_cell(printed_for(entry.method, entry.scenario, entry.variant, stream.paper_column))


def _seeds(entry: Entry, _best: Entry, _stream: Stream) -> Cell:
    return entry.variant.seeds


COLUMNS: tuple[Told, ...] = (
    _metric("ACC", "mean accuracy over all tasks at the end, percent; ± standard deviation over seeds"),
    Told(
        Column("to best", signed=True),
        "ACC minus that of the first row of its scenario, over common seeds, with the 95 % interval; * p < 0.05, "
        "paired t test over at least 3 seeds, not corrected for how many methods are compared",
        _behind,
    ),
    _metric("AvgAcc", "mean accuracy over the tasks seen so far, averaged over all moments, percent"),
    _metric("BWT", "what earlier tasks lost since they were learned, percentage points; 0 is nothing"),
    _metric("PS", "harmonic mean of plasticity and stability, from 0 to 1"),
    _cost("CAP", "share of the network's parameters that the tasks use together"),
    _cost("kept", "what is kept beyond the network at the end, images included"),
    _cost("latency 1", "milliseconds to answer one image"),
    _cost("learning", "time to learn all tasks, evaluation apart; comparable on one machine only"),
    Told(Column("paper"), "ACC as the paper prints it, of a network of full size and its own training", _paper),
    Told(Column("seeds", kind="runs"), "each leads to the run it was", _seeds),
)


def overview(groups: Sequence[tuple[Stream, Sequence[Entry]]]) -> tuple[Table, tuple[Told, ...]]:
    """All rows of all panels, best numbers marked in each group, and the columns that say something of any row."""
    cells = [[told.cell(entry, found[0], stream) for told in COLUMNS] for stream, found in groups for entry in found]
    used = [i for i in range(len(COLUMNS)) if any(row[i].text != NOT_DEFINED for row in cells)]
    named = [(f"{stream.title} {entry.scenario} {entry.group}", entry) for stream, found in groups for entry in found]
    rows = [
        Row(entry.label, tuple(row[i] for i in used), group) for (group, entry), row in zip(named, cells, strict=True)
    ]
    columns = tuple(COLUMNS[i] for i in used)
    return with_best(Table("page", "All runs", tuple(told.column for told in columns), tuple(rows))), columns

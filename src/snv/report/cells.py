"""Tables as plain values: typed cells that know their runs; pages and files only place them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

NOT_RUN = "not yet run"
NOT_DEFINED = "–"
SEVERAL = "run in several ways"


@dataclass(frozen=True)
class Cell:
    """A number with its deviation over seeds and the records it was made of, or the words that stand in its place."""

    value: float | None = None
    deviation: float | None = None  # standard deviation over seeds (n − 1); None with one seed
    seeds: tuple[int, ...] = ()
    runs: tuple[Path, ...] = ()  # one record per seed, in the same order
    text: str = ""  # what stands there if there is no value
    note: str = ""  # what a reader should know of it
    interval: tuple[float, float] | None = None  # 95 %
    p: float | None = None  # of a paired test against the table's reference
    best: bool = False  # in its column, among the rows of its group

    @property
    def n_seeds(self) -> int:
        return len(self.seeds)


@dataclass(frozen=True)
class Column:
    """What stands in a column, and how its numbers are written."""

    name: str
    group: str = ""  # a heading above several columns
    kind: Literal["number", "words", "runs"] = "number"
    digits: int = 2
    signed: bool = False  # differences
    better: Literal["higher", "lower", ""] = ""  # which number is the best of a group; "" where none is

    @property
    def title(self) -> str:
        """Its name where there is one line of headings only."""
        return f"{self.name}, {self.group}" if self.group else self.name


@dataclass(frozen=True)
class Row:
    label: str
    cells: tuple[Cell, ...]
    group: str = ""  # rows of a group compete for the best number


@dataclass(frozen=True)
class Table:
    """What `snv table` prints."""

    name: str  # as it is asked for
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    label: str = "method"  # heading of the rows' labels
    notes: tuple[str, ...] = ()  # sentences below the table

    def column(self, title: str) -> list[Cell]:
        """The cells of a column, from top to bottom."""
        index = [column.title for column in self.columns].index(title)
        return [row.cells[index] for row in self.rows]

    def row(self, label: str) -> Row:
        return next(row for row in self.rows if row.label == label)

    def groups(self) -> list[tuple[str, list[Row]]]:
        """The rows of each group, in order."""
        names = list(dict.fromkeys(row.group for row in self.rows))
        return [(name, [row for row in self.rows if row.group == name]) for name in names]


def with_best(table: Table) -> Table:
    """The table with the best number of every column marked, group by group, where at least two compete."""
    best = {id(cell) for _, rows in table.groups() for i, c in enumerate(table.columns) for cell in _best(rows, i, c)}
    rows = [
        dataclasses.replace(row, cells=tuple(dataclasses.replace(cell, best=id(cell) in best) for cell in row.cells))
        for row in table.rows
    ]
    return dataclasses.replace(table, rows=tuple(rows))


def _best(rows: Sequence[Row], index: int, column: Column) -> list[Cell]:
    """The cells of a column whose value, as written, is the best; several if they are written alike."""
    if not column.better:
        return []
    choose: Callable[[list[float]], float] = max if column.better == "higher" else min
    valued = [(cell, round(cell.value, column.digits)) for row in rows if (cell := row.cells[index]).value is not None]
    target = choose([value for _, value in valued]) if len(valued) > 1 else None
    return [cell for cell, value in valued if value == target]


def cell_text(cell: Cell, column: Column) -> str:
    """A cell in plain characters; an asterisk is p < 0.05."""
    if column.kind == "runs":
        return ", ".join(map(str, cell.seeds)) or cell.text
    if cell.value is None:
        return cell.text
    text = number_text(cell.value, column.digits, column.signed)
    if cell.deviation is not None:
        text += f" ± {cell.deviation:,.{column.digits}f}"
    if cell.interval is not None:
        text += " ({} … {})".format(*(number_text(end, column.digits, column.signed) for end in cell.interval))
    return text + ("*" if cell.p is not None and cell.p < 0.05 else "")


def number_text(value: float, digits: int, signed: bool = False) -> str:
    """A number; what rounds to zero has no sign."""
    rounded = round(value, digits) + 0.0
    return f"{rounded:+,.{digits}f}" if signed and rounded else f"{rounded:,.{digits}f}"

from __future__ import annotations

import pytest

from snv.report.cells import Cell, Column, Row, Table, cell_text, number_text, with_best

ACC, LOST = Column("ACC", "TIL", better="higher"), Column("lost", better="lower")


def a_table(*rows: tuple[str, float | None, float | None]) -> Table:
    made = [Row(str(i), (Cell(acc), Cell(lost)), group) for i, (group, acc, lost) in enumerate(rows)]
    return Table("some", "Some", (ACC, LOST), tuple(made))


def best_of(table: Table, column: str) -> list[bool]:
    return [cell.best for cell in table.column(column)]


def test_the_best_number_of_each_group_is_marked_in_the_direction_of_its_column():
    table = with_best(a_table(("a", 1, 1), ("a", 2, 2), ("b", 9, 9), ("b", 8, 8)))
    assert best_of(table, "ACC, TIL") == [False, True, True, False]
    assert best_of(table, "lost") == [True, False, False, True]


def test_numbers_that_are_written_alike_are_best_together_and_a_number_alone_is_not():
    assert best_of(with_best(a_table(("a", 1.001, None), ("a", 1.004, None))), "ACC, TIL") == [True, True]
    assert best_of(with_best(a_table(("a", 1, None), ("a", None, None))), "ACC, TIL") == [False, False]


@pytest.mark.parametrize(
    ("cell", "column", "text"),
    [
        (Cell(76.567, 0.5166), ACC, "76.57 ± 0.52"),
        (Cell(76.567), ACC, "76.57"),
        (Cell(76.567, p=0.049), ACC, "76.57*"),
        (Cell(76.567, p=0.05), ACC, "76.57"),
        (Cell(-0.001), ACC, "0.00"),
        (Cell(1.5, interval=(-0.25, 3.25)), Column("Δ", signed=True), "+1.50 (-0.25 … +3.25)"),
        (Cell(12345.6), Column("seconds", digits=0), "12,346"),
        (Cell(text="not yet run"), ACC, "not yet run"),
        (Cell(seeds=(0, 2)), Column("seeds", kind="runs"), "0, 2"),
    ],
)
def test_a_cell_is_written_as_its_column_says(cell, column, text):
    assert cell_text(cell, column) == text


def test_what_rounds_to_zero_has_no_sign():
    assert [number_text(x, 1, signed=True) for x in (-0.04, 0.04, -0.06, 0.06)] == ["0.0", "0.0", "-0.1", "+0.1"]

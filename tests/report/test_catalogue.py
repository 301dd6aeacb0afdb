"""What holds for every table, whatever runs there are; the catalogue supplies the cases."""

from __future__ import annotations

from pathlib import Path

import pytest
from table_records import a_result, with_final

from snv.errors import UserError
from snv.report import FORMATS, TABLES, table

ONE = [a_result("snv", "til", name="snv-til-seed0.json", accuracy=with_final(*10 * [70.0]))]


@pytest.mark.parametrize("results", [[], ONE], ids=["no run", "one run"])
@pytest.mark.parametrize("name", TABLES)
def test_every_table_can_be_made_and_written_whatever_there_is(name, results):
    made = table(name, results)
    assert made.name == name
    assert {len(row.cells) for row in made.rows} <= {len(made.columns)}
    for write in FORMATS.values():
        assert made.label in write(made, Path())
    assert FORMATS["tex"](made, Path()).isascii(), "LaTeX has words for every sign"


@pytest.mark.parametrize("name", TABLES)
def test_every_cell_says_something_and_leads_to_the_runs_of_its_seeds(name):
    made = table(name, ONE)
    for row in made.rows:
        for cell, column in zip(row.cells, made.columns, strict=True):
            assert cell.value is not None or cell.text or cell.seeds, (row.label, column.title)
            assert len(cell.seeds) == len(cell.runs)
            assert (cell.deviation is None) or cell.n_seeds > 1 or cell.note == "as the paper prints it"


def test_runs_that_are_not_finished_are_left_out_and_counted():
    result = a_result("snv", seed=1)
    result.record.tasks_done = 1
    made = table("small", [*ONE, result])
    assert made.row("snv").cells[0].seeds == (0,)
    assert made.notes[-1] == "Left out because they are not finished: 1."


def test_a_table_that_compares_nothing_says_so():
    with pytest.raises(UserError, match="compares no runs"):
        table("runs", ONE, against="snv")


def test_an_unknown_table_is_answered_with_the_nearest():
    with pytest.raises(UserError, match="Did you mean 'imagenet'"):
        table("imagenet1k", ONE)

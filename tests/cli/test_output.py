"""Numbers and tables as people read them, JSON as machines do."""

from __future__ import annotations

import math

import pytest

from snv.cli.output import as_lines, number, say_json, say_table


def test_what_was_not_measured_is_a_dash():
    assert [number(x) for x in (None, math.nan, 1.234)] == ["–", "–", "1.23"]


def test_lines_stand_under_each_other():
    assert as_lines({"a": 1, "long": "x"}) == "a     1\nlong  x"


def test_JSON_is_one_line_and_holds_no_number_that_is_not_one(capsys):
    say_json({"name": "ö", "x": [1, None]})
    assert capsys.readouterr().out == '{"name": "ö", "x": [1, null]}\n'
    with pytest.raises(ValueError, match="JSON"):
        say_json(math.inf)


def test_a_table_shows_every_cell(capsys):
    say_table("runs", ["run", "ACC"], [["sgd", "19.5"], ["snv", "90.1"]])
    printed = capsys.readouterr().out
    assert all(cell in printed for cell in ("runs", "ACC", "sgd", "19.5", "snv", "90.1"))

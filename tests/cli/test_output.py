"""Numbers and tables as people read them, JSON as machines do."""

from __future__ import annotations

import json
import math

import pytest

from hostile import NAMES
from snv.cli.output import as_lines, number, say, say_json, say_table
from snv.text import printable, printable_lines


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


@pytest.mark.parametrize("name", NAMES)
def test_a_hostile_name_is_only_printed(name, capsys):
    say_table(name, [name], [[name]])
    say(f"one line: {printable(name)}")
    say_json({"name": name})
    out = capsys.readouterr().out
    assert printable_lines(out) == out
    assert out.count("one line") == 1
    *_, line, told = out.splitlines()
    assert line == f"one line: {printable(name)}"
    assert json.loads(told) == {"name": name}


def test_markup_in_a_name_is_a_name(capsys):
    say_table("[red]x[/red]", ["[/]", "[link=file:///etc]y[/link]"], [[":smile:", "[bold]z"]])
    out = capsys.readouterr().out
    assert all(word in out for word in ("[red]x[/red]", "[/]", "[link=file:///etc]y[/link]", ":smile:", "[bold]z"))

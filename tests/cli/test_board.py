"""How a study stands is told in counts, durations and a line per run that ends."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from snv.cli.board import Board, count_text, duration, event_text
from snv.config import load_config
from snv.study import Estimates, Job
from snv.study.ledger import Standing


def standing(name: str, state: str, **more) -> Standing:
    return Standing(Job("g", name, load_config()), Path("no.json"), Path("no"), state, **more)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (119, "119 s"), (120, "2 min"), (7199, "120 min"), (7200, "2.0 h"), (172800, "2.0 d")],
)
def test_a_duration_is_in_the_largest_unit_of_which_there_are_two(seconds, text):
    assert duration(seconds) == text


def test_counts_name_only_what_there_is():
    found = [standing("a", "failed"), standing("b", "to do"), standing("c", "to do")]
    assert count_text(found) == "2 to do, 1 failed"
    assert count_text([]) == "no runs"


def test_a_line_is_told_once_when_a_run_has_ended(capsys):
    first, second = standing("a", "to do"), standing("b", "failed", reason="as before")
    with Board() as board:
        board([first, second])
        assert capsys.readouterr().out == ""
        first.state, first.reason = "failed", "It broke."
        board([first, second])
        board([first, second])
    assert capsys.readouterr().out == "g/a: failed: It broke.\n"


def test_a_run_that_is_done_tells_its_numbers_and_who_did_it(tmp_path):
    record = tmp_path / "r.json"
    record.write_text('{"metrics": {"ACC": 71.234, "BWT": null}}')
    done = Standing(Job("g", "a", load_config()), record, Path("no"), "done", seconds=200.0)
    assert event_text(done) == "g/a: ACC 71.23, 3 min"
    done.seconds = 0.0
    assert event_text(done) == "g/a: ACC 71.23, by another process"


def test_nothing_is_told_for_machines(capsys):
    first = standing("a", "to do")
    with Board(quiet=True) as board:
        board([first])
        first.state = "elsewhere"
        board([first])
    assert capsys.readouterr() == ("", "")


def test_on_a_terminal_a_table_shows_what_is_running_and_how_long_the_rest_takes():
    screen = io.StringIO()
    running = standing("long-one", "running", doing="task 1 of 5, train", share=0.5)
    board = Board(Estimates([]), jobs=2)
    Console(file=screen, force_terminal=False, width=100).print(board._drawn([running, standing("b", "to do")]))
    text = screen.getvalue()
    assert "g/long-one" in text
    assert "task 1 of 5, train" in text
    assert "50%" in text
    assert "1 running, 1 to do; about" in text

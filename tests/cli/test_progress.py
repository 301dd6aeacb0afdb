"""After two seconds there is a bar on terminals, and plain lines where output is piped."""

from __future__ import annotations

import io
import sys
import time

import pytest

from snv.cli.progress import Bar, time_left


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def seconds(monkeypatch):
    """A clock that is set by hand."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_a_bar_is_drawn_on_a_terminal(seconds, monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with Bar() as bar:
        bar("learning", 1, 10)
        assert not screen.getvalue()
        seconds[0] = 3.0
        bar.note(lambda: "loss 0.25")
        bar("learning", 2, 10)
    assert "learning, loss 0.25" in screen.getvalue()
    assert "\x1b[" in screen.getvalue(), "it is drawn, not written"


def test_where_output_is_piped_there_are_plain_lines_now_and_then(seconds, monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    with Bar() as bar:
        for second in range(13):
            seconds[0] = float(second)
            bar("learning", second, 100)
            bar.note(lambda: "loss 0.25")
    assert screen.getvalue().splitlines() == [
        f"learning: {second} %, loss 0.25, {left} left" for second, left in ((3, "1:37"), (9, "1:31"))
    ]


def test_short_work_is_not_mentioned(seconds, monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    with Bar() as bar:
        for second in (0.0, 1.0, 2.0):
            seconds[0] = second
            bar("learning", second, 2)
    assert screen.getvalue() == ""


def test_a_remark_is_asked_for_only_when_it_is_shown(seconds, monkeypatch):
    """A loss on a GPU waits for the GPU, so a step must not ask for it."""
    asked = []
    for screen in (Terminal(), io.StringIO()):
        monkeypatch.setattr(sys, "stderr", screen)
        with Bar() as bar:
            for step in range(1000):
                seconds[0] += 0.01
                bar("learning", step, 1000)
                bar.note(lambda: asked.append(1) or "")
        assert 1 <= len(asked) <= 20
        asked.clear()


def test_a_remark_belongs_to_the_work_it_was_made_about(seconds, monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    with Bar() as bar:
        bar("learning", 0, 10)
        bar.note(lambda: "loss 0.25")
        seconds[0] = 4.0
        bar("evaluating", 1, 10)
    assert screen.getvalue() == "evaluating: 10 %\n"


@pytest.mark.parametrize(
    ("spent", "text"), [((10, 1, 9), "1:30 left"), ((3600, 1, 3), "3:00:00 left"), ((0.5, 1, 9), ""), ((9, 0, 9), "")]
)
def test_time_left_goes_by_what_is_done(spent, text):
    assert time_left(*spent) == text


def test_machines_see_none(seconds, monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with Bar(quiet=True) as bar:
        bar("learning", 1, 10)
        seconds[0] = 3.0
        bar("learning", 2, 10)
    assert screen.getvalue() == ""

"""A bar appears after two seconds of one kind of work, on terminals only."""

from __future__ import annotations

import io
import sys
import time

import pytest

from snv.cli.progress import Bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def seconds(monkeypatch):
    """A clock that is set by hand."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize(("stream", "shown"), [(Terminal, True), (io.StringIO, False)])
def test_a_bar_is_drawn_on_a_terminal_only(stream, shown, seconds, monkeypatch):
    screen = stream()
    monkeypatch.setattr(sys, "stderr", screen)
    with Bar() as bar:
        bar("learning", 1, 10)
        assert not screen.getvalue()
        seconds[0] = 3.0
        bar("learning", 2, 10)
    assert ("learning" in screen.getvalue()) is shown


def test_machines_see_none(seconds, monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with Bar(quiet=True) as bar:
        bar("learning", 1, 10)
        seconds[0] = 3.0
        bar("learning", 2, 10)
    assert screen.getvalue() == ""

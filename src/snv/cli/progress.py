"""How far long work is: a bar with rate and time left on terminals, plain lines now and then where output is piped."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from snv.text import printable

PATIENCE = 2.0
"""Seconds of silence before anything is shown."""

EVERY = 5.0
"""Seconds between two plain lines."""

REMARKS = 0.5
"""Seconds between two remarks on a bar: a loss waits for the device when it is asked for."""


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.0f}/s" if task.speed else "", style="progress.data.speed")


class Bar:
    """Call it with (what, done, total) as often as you like; a new ``what`` starts a new bar.

    A ``counted`` bar shows how many of how many are done, others how fast it goes.
    """

    def __init__(self, quiet: bool = False, counted: bool = False) -> None:
        console = Console(stderr=True)
        self._quiet, self._draws = quiet, sys.stderr.isatty()
        last = MofNCompleteColumn() if counted else _Rate()
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            last,
        )
        self._bars = Progress(*columns, TimeRemainingColumn(compact=True), console=console, transient=True)
        self._label: str | None = None
        self._id: TaskID | None = None
        self._since, self._from = 0.0, 0.0  # when the work under this label began, and how much of it was done then
        self._said: float | None = None  # when something was said last
        self._remark: Callable[[], str] = str

    def __call__(self, label: str, done: float, total: float) -> None:
        if self._quiet:
            return
        now = time.monotonic()
        if label != self._label:
            self._remove()
            self._label, self._since, self._from, self._remark = label, now, done, str
        if self._draws:
            self._draw(now, done, total)
        else:
            self._write(now, done, total)

    def note(self, remark: Callable[[], str]) -> None:
        """Something to say beside the numbers, asked for when it is shown."""
        self._remark = remark

    def _draw(self, now: float, done: float, total: float) -> None:
        if self._id is None and now - self._since > PATIENCE:
            self._bars.start()
            self._id, self._said = self._bars.add_task(self._titled(), total=total, completed=int(done)), now
        if self._id is None:
            return
        self._bars.update(self._id, completed=done, total=total)
        if now - (self._said or 0) >= REMARKS:
            self._said = now
            self._bars.update(self._id, description=self._titled())

    def _titled(self) -> str:
        return printable(_joined(str(self._label), self._remark()))

    def _write(self, now: float, done: float, total: float) -> None:
        if self._said is None:
            self._said = now - EVERY + PATIENCE
        if now - self._said <= EVERY:
            return
        self._said = now
        share = f"{100 * done / total:.0f} %" if total else ""
        left = time_left(now - self._since, done - self._from, total - done)
        sys.stderr.write(printable(f"{self._label}: {_joined(share, self._remark(), left)}") + "\n")
        sys.stderr.flush()

    def _remove(self) -> None:
        if self._id is not None:
            self._bars.remove_task(self._id)
            self._id = None

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()
        if self._bars.live.is_started:
            self._bars.stop()


def time_left(seconds: float, done: float, rest: float) -> str:
    """Of work of which so much took so long, such as "1:05 left"; empty while there is nothing to go by."""
    if seconds < 1 or done <= 0:
        return ""
    minutes, s = divmod(round(seconds * rest / done), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{s:02} left" if hours else f"{minutes}:{s:02} left"


def _joined(*parts: str) -> str:
    return ", ".join(part for part in parts if part)

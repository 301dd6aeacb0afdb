"""A progress bar with rate and time left, for work of more than two seconds, on terminals only."""

from __future__ import annotations

import sys
import time
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

PATIENCE = 2.0
"""Seconds of silence before a bar appears."""


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.0f}/s" if task.speed else "", style="progress.data.speed")


class Bar:
    """Call it with (what, done, total) as often as you like; a new ``what`` starts a new bar.

    A ``counted`` bar shows how many of how many are done, others how fast it goes.
    """

    def __init__(self, quiet: bool = False, counted: bool = False) -> None:
        console = Console(stderr=True)
        self._quiet = quiet or not sys.stderr.isatty()
        last = MofNCompleteColumn() if counted else _Rate()
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"), last)
        self._bars = Progress(*columns, TimeRemainingColumn(compact=True), console=console, transient=True)
        self._label: str | None = None
        self._id: TaskID | None = None
        self._since = 0.0

    def __call__(self, label: str, done: float, total: float) -> None:
        if self._quiet:
            return
        if label != self._label:
            self._remove()
            self._label, self._since = label, time.monotonic()
        if self._id is None and time.monotonic() - self._since > PATIENCE:
            self._bars.start()
            self._id = self._bars.add_task(label, total=total, completed=int(done))
        if self._id is not None:
            self._bars.update(self._id, completed=done, total=total)

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

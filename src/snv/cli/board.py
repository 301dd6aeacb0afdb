"""How the runs of a study stand while they are worked off: a live table on terminals, a line per event elsewhere."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from snv.text import printable

if TYPE_CHECKING:
    from snv.study import Estimates, Standing

STATES = ("done", "running", "elsewhere", "partial", "to do", "failed")
ENDS = ("done", "failed", "elsewhere")


class Board:
    """Call it with all standings as often as you like."""

    def __init__(self, estimates: Estimates | None = None, jobs: int | None = None, quiet: bool = False) -> None:
        from snv.study import cores

        self._estimates, self._jobs, self._quiet = estimates, jobs or cores(), quiet
        console = Console(stderr=True)
        self._live = Live(console=console, refresh_per_second=2, transient=True) if console.is_terminal else None
        self._told: dict[str, str] = {}
        self._seconds: dict[str, float] = {}
        self._begun: dict[str, float] = {}

    def __call__(self, standings: Sequence[Standing]) -> None:
        if self._quiet:
            return
        if self._live is not None:
            self._live.update(self._drawn(standings))
        self._tell(standings)

    def _tell(self, standings: Sequence[Standing]) -> None:
        """A line for every run that has ended since the last call; on a terminal above the table."""
        first = not self._told
        for standing in standings:
            place, state = standing.job.place, standing.state
            if self._told.get(place) != state and state in ENDS and not first:
                self._say(event_text(standing))
            self._told[place] = state

    def _say(self, text: str) -> None:
        text = printable(text)
        if self._live is not None:
            self._live.console.print(text, highlight=False, markup=False)
        else:
            sys.stdout.write(text + "\n")
            sys.stdout.flush()

    def _drawn(self, standings: Sequence[Standing]) -> Group:
        table = Table("running", "at", "share", "for", box=None, header_style="bold")
        for standing in standings:
            if standing.state == "running":
                words = (standing.job.place, standing.doing, f"{standing.share:.0%}", self._age(standing))
                table.add_row(*(Text(printable(word)) for word in words))
        return Group(table, Text(f"{count_text(standings)}; {self._left(standings)}"))

    def _age(self, standing: Standing) -> str:
        began = self._begun.setdefault(standing.job.place, time.monotonic())
        return duration(time.monotonic() - began)

    def _left(self, standings: Sequence[Standing]) -> str:
        """How long the rest will take."""
        seconds = [self._remaining(standing) for standing in standings if standing.state not in ("done", "failed")]
        return f"about {duration(sum(seconds) / self._jobs)} left" if self._estimates else ""

    def _remaining(self, standing: Standing) -> float:
        place = standing.job.place
        if place not in self._seconds and self._estimates is not None:
            self._seconds[place] = self._estimates.of(standing.job.config).seconds or 0.0
        spent = time.monotonic() - self._begun[place] if place in self._begun else 0.0
        return max(0.0, self._seconds.get(place, 0.0) - spent)

    def __enter__(self) -> Board:
        if self._live is not None and not self._quiet:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """What is told from now on stands below."""
        if self._live is not None and self._live.is_started:
            self._live.stop()


def event_text(standing: Standing) -> str:
    """What has become of a run, in a line."""
    match standing.state:
        case "done":
            stored = standing.as_json()["metrics"]
            numbers = [f"{name} {stored[name]:.2f}" for name in ("ACC", "BWT") if stored.get(name) is not None]
            last = duration(standing.seconds) if standing.seconds else "by another process"
            return f"{standing.job.place}: {', '.join([*numbers, last])}"
        case "failed":
            return f"{standing.job.place}: failed: {standing.reason}"
    return f"{standing.job.place}: another process works on it"


def count_text(standings: Sequence[Standing]) -> str:
    """How many runs are in which state."""
    counts = Counter(standing.state for standing in standings)
    return ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state]) or "no runs"  # type: ignore[index]


def duration(seconds: float) -> str:
    """In the largest unit of which there is more than one."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}" if unit != "min" else f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"

"""Who runs the jobs: the interface that local processes fill in, and what one of them does with a job."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from snv.config import RunConfig
from snv.data import TaskStream
from snv.errors import Interrupted, InUseError, UserError
from snv.runs import keep_result, mirrored, run, trackers

TELL = 0.5
"""Seconds between two reports of a run that is under way."""


@dataclass(frozen=True)
class Work:
    """A run to be done: its directory, and where its record is to be kept, if anywhere else."""

    key: str  # what it is known by
    config: RunConfig
    directory: Path
    record: Path | None = None
    stream: TaskStream | None = None  # in place of the one that the config describes
    pause_after: int | None = None  # epochs
    track: tuple[str, ...] = ()  # names of trackers
    url: str | None = None  # where the lasting copy of the directory is, if it has one


@dataclass(frozen=True)
class News:
    """What became of a run: under way, done, failed, in use by another process, or its process died."""

    key: str
    kind: Literal["told", "done", "failed", "in use", "lost"]
    text: str = ""  # what it is at, or what went wrong
    share: float = 0.0  # of what it is at
    details: str = ""  # for whoever looks for the cause
    error: Exception | None = field(default=None, compare=False)


@runtime_checkable
class Workers(Protocol):
    """Takes as many jobs as it has room for and tells what becomes of them; it may be a process, a machine, a farm."""

    def room(self) -> int:
        """How many more jobs can be handed in now."""

    def submit(self, work: Work) -> None: ...

    def news(self, seconds: float) -> list[News]:
        """What has happened since the last call; waits so long for the first."""

    def stop(self) -> None:
        """Let every run save what it has, and end."""


def carry_out(work: Work, tell: Callable[[News], None] = lambda _: None) -> News:
    """Run one job to its end, keep its record, and say how it went; only a request to stop passes through."""
    try:
        told, tracker = _Throttled(work.key, tell), trackers(work.track, work.directory)
        with mirrored(work.directory, work.url) as saved:
            asked: dict[str, Any] = {"stream": work.stream, "pause_after": work.pause_after}
            run(work.config, work.directory, told, **asked, tracker=tracker, saved=saved)
        if work.record is not None:
            keep_result(work.directory, work.record)
    except InUseError as error:
        return News(work.key, "in use", str(error), error=error)
    except UserError as error:
        return News(work.key, "failed", str(error), error=error)
    except (Interrupted, KeyboardInterrupt, ConnectionError):
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        whole = error if isinstance(error, OSError) else None  # others may not survive the way to another process
        return News(work.key, "failed", reason, details=traceback.format_exc(), error=whole)
    return News(work.key, "done")


class _Throttled:
    """Progress that is told now and then."""

    def __init__(self, key: str, tell: Callable[[News], None]) -> None:
        self._key, self._tell, self._at = key, tell, -TELL

    def __call__(self, what: str, done: float, total: float) -> None:
        if time.monotonic() - self._at >= TELL:
            self._at = time.monotonic()
            self._tell(News(self._key, "told", what, done / total if total else 0.0))

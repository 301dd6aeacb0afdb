"""Folders at a URL: what a study reads and writes of them is at hand here while it is worked off."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from snv.errors import Interrupted
from snv.runs import Mirror, Wanted, everything, is_url
from snv.study.workers import News, Work, Workers


@contextmanager
def at_hand(place: str | Path, read: Wanted = everything, written: Wanted | None = None) -> Iterator[Path]:
    """A folder as it is, or what is ``read`` of a URL; in the end, what is new of ``written`` goes there."""
    if not is_url(place):
        yield Path(place)
        return
    with TemporaryDirectory(prefix="snv-") as scratch:
        mirror = Mirror(Path(scratch), str(place))
        mirror.check()
        mirror.pull(read)
        try:
            yield Path(scratch)
        except Interrupted as stop:
            raise Interrupted(stop.signum, str(stop).replace(scratch, str(place))) from None
        finally:
            mirror.push(written or read)


def but_runs(name: str) -> bool:
    """Of a search, all but what whoever does the runs writes."""
    return not name.startswith("runs/")


def failures(name: str) -> bool:
    """Of a folder of runs, likewise."""
    return name.endswith(".failed.json")


def how_they_stand(name: str) -> bool:
    """Of a folder of runs, what says how they stand."""
    return failures(name) or name.endswith(("/config.json", "/record.json"))


class MirroredWorkers:
    """Workers whose runs have their lasting copies at a URL, each where it is below ``folder``."""

    def __init__(self, workers: Workers, folder: Path, url: str) -> None:
        self._workers, self._folder, self._url = workers, folder, url.rstrip("/")

    def room(self) -> int:
        return self._workers.room()

    def submit(self, work: Work) -> None:
        name = work.directory.relative_to(self._folder).as_posix()
        self._workers.submit(dataclasses.replace(work, url=f"{self._url}/{name}"))

    def news(self, seconds: float) -> list[News]:
        return self._workers.news(seconds)

    def stop(self) -> None:
        self._workers.stop()

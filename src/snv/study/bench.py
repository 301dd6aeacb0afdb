"""Work off a study: what is done stays, what was cut goes on, what fails does not stop the rest."""

from __future__ import annotations

import dataclasses
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from snv.errors import Interrupted
from snv.runs import Interrupts, trackers
from snv.study.expand import Plan, expand
from snv.study.hands import CHANCES, LOOK
from snv.study.ledger import Ledger, Standing, look, note_failure
from snv.study.local import LocalWorkers, seats
from snv.study.study import Study
from snv.study.workers import News, Work, Workers

AGAIN = 2.0
"""Seconds between two looks at runs that other processes work on."""

Watch = Callable[[Sequence[Standing]], None]
"""Shown how all runs stand, several times a second."""


def bench(
    study: Study,
    out: Path,
    *,
    runs: Path = Path("runs"),
    jobs: int | None = None,
    retry: bool = False,
    only: Sequence[str] = (),
    seeds: Sequence[int] = (),
    data_dir: Path | None = None,
    track: Sequence[str] = (),
    hang_after: float | None = None,
    workers: Workers | None = None,
    watch: Watch = lambda _: None,
) -> list[Standing]:
    """Every run of a study, done or failed, with records below ``out`` and run directories below ``runs``.

    Done is what has a record of the same fingerprint. ``jobs`` processes work on the rest, as many as there are cores
    unless told otherwise, or ``workers`` do; one that gives no sign of life for ``hang_after`` seconds is replaced.
    After a kill at any moment the same call goes on; several calls share it.
    """
    plan = planned(study, only, seeds, data_dir)
    standings = Ledger(out, runs).survey(plan.jobs)
    return work_off(standings, jobs=jobs, retry=retry, track=track, hang_after=hang_after, workers=workers, watch=watch)


def planned(study: Study, only: Sequence[str] = (), seeds: Sequence[int] = (), data_dir: Path | None = None) -> Plan:
    """The runs of a study that are like one of the patterns, with other seeds or data files than it names."""
    return expand(study, seeds).only(only).reading_from(data_dir)


def work_off(
    standings: Sequence[Standing],
    *,
    jobs: int | None = None,
    retry: bool = False,
    track: Sequence[str] = (),
    hang_after: float | None = None,
    workers: Workers | None = None,
    watch: Watch = lambda _: None,
) -> list[Standing]:
    """The standings once every run is done or has failed."""
    first = {standing.job.fingerprint: standing for standing in reversed(standings)}  # two groups may have the same run
    board = [standing for standing in standings if standing is first[standing.job.fingerprint]]
    wanted = [standing for standing in board if standing.state != "done" and (standing.state != "failed" or retry)]
    trackers(track, Path())  # one that is missing is refused now, and not by every run
    watch(board)
    if wanted:
        with ExitStack() as ending:
            if workers is None:
                needs = [standing.job.config.resources for standing in wanted]
                workers = ending.enter_context(LocalWorkers(jobs or seats(needs), hang_after))
            _Work(wanted, board, workers, tuple(track), watch).finish()
    return [dataclasses.replace(first[standing.job.fingerprint], job=standing.job) for standing in standings]


class _Work:
    """A study under way."""

    def __init__(
        self,
        wanted: Sequence[Standing],
        board: Sequence[Standing],
        workers: Workers,
        track: tuple[str, ...],
        watch: Watch,
    ) -> None:
        self.queue = deque(wanted)
        self.board, self.workers, self.track, self.watch = board, workers, track, watch
        self.busy: dict[str, Standing] = {}
        self.began: dict[str, float] = {}
        self.elsewhere: list[Standing] = []
        self.looked = 0.0

    def finish(self) -> None:
        interrupts = Interrupts()
        with interrupts.watched():
            while self.queue or self.busy or self.elsewhere:
                self._hand_out()
                for news in self._news():
                    self._hear(news)
                self._look_again()
                self.watch(self.board)
                if interrupts.signum is not None:
                    self.workers.stop()
                    raise Interrupted(interrupts.signum, " and ".join(sorted(self._places())))

    def _places(self) -> set[str]:
        return {str(standing.directory.parent) for standing in [*self.busy.values(), *self.queue]}

    def _hand_out(self) -> None:
        while self.queue and self.workers.room() > 0:
            standing = self.queue.popleft()
            if self._is_still_wanted(standing):
                self._submit(standing)

    def _is_still_wanted(self, standing: Standing) -> bool:
        """Whether no other process has done it, or does it, by now."""
        if standing.state == "failed":  # asked for again
            standing.failure.unlink(missing_ok=True)
        look(standing)
        if standing.state == "elsewhere":
            self.elsewhere.append(standing)
        return standing.state in ("to do", "partial")

    def _submit(self, standing: Standing) -> None:
        key = standing.job.fingerprint
        self.busy[key], self.began[key] = standing, time.monotonic()
        standing.state, standing.doing, standing.share = "running", "", 0.0
        self.workers.submit(Work(key, standing.job.config, standing.directory, standing.record, track=self.track))

    def _news(self) -> list[News]:
        if self.busy:
            return self.workers.news(LOOK)
        time.sleep(LOOK if self.elsewhere else 0)
        return []

    def _hear(self, news: News) -> None:
        standing = self.busy[news.key]
        standing.seconds = time.monotonic() - self.began[news.key]
        if news.kind == "told":
            standing.doing, standing.share = news.text, news.share
            return
        del self.busy[news.key]
        standing.doing = ""
        match news.kind:
            case "done":
                standing.failure.unlink(missing_ok=True)
                look(standing)
            case "failed":
                note_failure(standing, news.text, news.details)
            case "in use":
                standing.state, standing.seconds = "elsewhere", 0.0
                self.elsewhere.append(standing)
            case "lost":
                self._take_back(standing, news.text)

    def _take_back(self, standing: Standing, reason: str) -> None:
        """A run whose process died goes on from its checkpoint, once."""
        standing.lost += 1
        if standing.lost < CHANCES:
            standing.state = "partial"
            self.queue.appendleft(standing)
        else:
            note_failure(standing, reason)

    def _look_again(self) -> None:
        """At the end: what became of the runs that others work on."""
        if self.queue or self.busy or time.monotonic() - self.looked < AGAIN:
            return
        self.looked = time.monotonic()
        for standing in self.elsewhere:
            look(standing)
        self.queue.extend(standing for standing in self.elsewhere if standing.state in ("to do", "partial"))
        self.elsewhere = [standing for standing in self.elsewhere if standing.state == "elsewhere"]

"""Runs on a Ray cluster: each is a task there, with the cores, GPUs and memory its config asks for."""

from __future__ import annotations

import dataclasses
import time
import uuid
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from snv.data import TaskStream
from snv.errors import UserError
from snv.machine import Resources
from snv.runs import Mirror, RunDirectory, but_checkpoints, keep_result, load_record, make_directory
from snv.study.cluster import Cluster
from snv.study.local import GRACE
from snv.study.node import Origin, do
from snv.study.workers import News, Work

LATE = 60.0
"""Seconds after which a network folder shows here what was written there."""


class RayWorkers:
    """As many runs as fit on a cluster, or ``jobs``; use it as a context, after which none of ours is left there.

    ``needs`` are those of the runs to come. Every node must see the folder ``shared``, if the runs are done in one.
    """

    def __init__(
        self,
        address: str,
        needs: Sequence[Resources] = (),
        shared: Path | None = None,
        jobs: int | None = None,
    ) -> None:
        self.jobs = jobs
        self._cluster, self._needs = Cluster(address), tuple(dict.fromkeys(needs)) or (Resources(),)
        self._token = None if shared is None else shared.absolute() / f".{uuid.uuid4().hex}.tmp"
        self._origin = Origin.here(self._token)
        self._busy: dict[Any, Work] = {}
        self._lost: set[str] = set()
        self._functions: dict[Resources, Any] = {}
        self._streams: list[tuple[TaskStream, Any]] = []
        self._ending = ExitStack()

    def __enter__(self) -> RayWorkers:
        with ExitStack() as ending:
            ending.enter_context(self._cluster)
            self._ray = self._cluster.ray
            if self._token is not None:
                make_directory(self._token.parent)
                ending.callback(self._token.unlink, missing_ok=True)
                self._token.touch()
            for need in self._needs:
                self._cluster.check_fits(need)
            self._cluster.check_nodes(self._needs, self._origin)
            here = self._cluster.on(self._ray.get_runtime_context().get_node_id(), soft=True)
            options = {"num_cpus": 0, "scheduling_strategy": here}
            self._told = self._cluster.part("util.queue").Queue(actor_options=options)
            ending.callback(self._told.shutdown, force=True)
            ending.callback(self.stop)
            self._ending = ending.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.close()

    # ---- as all workers

    def room(self) -> int:
        """What does not fit now, because others use the cluster, waits there."""
        return (self.jobs or max(1, self._cluster.seats(self._most()))) - len(self._busy)

    def submit(self, work: Work) -> None:
        work = dataclasses.replace(work, directory=work.directory.absolute())
        sent = dataclasses.replace(work, record=None, stream=None)  # the record is kept here, once the run is done
        arguments = (sent, self._handed(work.stream), self._told, self._origin, work.key in self._lost)
        self._busy[self._function(work.config.resources).remote(*arguments)] = work

    def news(self, seconds: float) -> list[News]:
        """What runs told, and which have ended."""
        ended, _ = self._ray.wait(list(self._busy), timeout=seconds) if self._busy else ([], [])
        return [*self._progress(), *map(self._end, ended)]

    def stop(self) -> None:
        """Ask every run once; whatever does not end in time is ended."""
        for run in self._busy:
            self._ray.cancel(run)  # arrives in the run as Ctrl-C would
        if self._busy:
            _, left = self._ray.wait(list(self._busy), num_returns=len(self._busy), timeout=GRACE)
            for run in left:
                self._ray.cancel(run, force=True)
        self._busy.clear()

    # ---- runs

    def _most(self) -> Resources:
        """Enough for any of the runs."""
        memory = max(self._needs, key=lambda need: need.bytes).memory
        return Resources(max(need.cpus for need in self._needs), max(need.gpus for need in self._needs), memory)

    def _function(self, need: Resources) -> Any:
        """What does a run with so much of a node; Ray never repeats it, since that is for the study to decide."""
        if need not in self._functions:
            asked = {"num_cpus": need.cpus, "num_gpus": need.gpus, "memory": need.bytes or None}
            self._functions[need] = self._ray.remote(**asked, max_retries=0)(do)
        return self._functions[need]

    def _handed(self, stream: TaskStream | None) -> Any:
        """A stream goes to each node once, however many runs learn it."""
        if stream is None:
            return None
        for known, handed in self._streams:
            if known is stream:
                return handed
        self._streams.append((stream, self._ray.put(stream)))
        return self._streams[-1][1]

    def _progress(self) -> list[News]:
        """The newest of every run under way."""
        newest: dict[str, News] = {}
        with suppress(self._ray.exceptions.RayError, self._cluster.part("util.queue").Empty):
            for key, text, share in self._told.get_nowait_batch(self._told.qsize()):
                newest[key] = News(key, "told", text, share)
        under_way = {work.key for work in self._busy.values()}
        return [news for key, news in newest.items() if key in under_way]

    def _end(self, run: Any) -> News:
        work = self._busy.pop(run)
        try:
            news: News = self._ray.get(run)
        except self._ray.exceptions.RayError as error:
            reason = f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
            news = News(work.key, "lost", f"The process or node that ran {work.directory} is gone ({reason}).")
        if news.kind == "lost":
            self._lost.add(work.key)
        try:
            return _fetched(work, news)
        except UserError as error:
            return News(work.key, "failed", str(error), error=error)


def _fetched(work: Work, news: News) -> News:
    """The same news, once what they speak of can be read here."""
    if work.url is not None and news.kind in ("done", "failed"):
        Mirror(work.directory, work.url).pull(but_checkpoints)
    if work.record is not None and news.kind == "done":
        until = time.monotonic() + LATE
        while not _is_finished(work.directory) and time.monotonic() < until:
            time.sleep(0.5)
        keep_result(work.directory, work.record)
    return news


def _is_finished(directory: Path) -> bool:
    return RunDirectory(directory).is_run() and load_record(directory).status == "finished"

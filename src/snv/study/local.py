"""Processes of this machine: each takes one run after the other, with as many threads as that asks for."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from snv.errors import Interrupted
from snv.machine import Resources, with_environment
from snv.study.workers import News, Work, carry_out

GRACE = 30.0
"""Seconds a process may take to save what it has."""

BEAT = 1.0
"""Seconds between two signs of life of a process, which do not depend on how its run goes on."""

HANG_AFTER = 300.0
"""Seconds without a sign of life after which a process is ended."""

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""Read once, when the libraries are loaded."""


class LocalWorkers:
    """At most ``n`` processes, begun when they are needed; use it as a context, after which all have ended.

    A process that gives no sign of life for ``hang_after`` seconds is ended, and its run counts as lost.
    """

    def __init__(self, n: int | None = None, hang_after: float | None = None) -> None:
        self.n, self.hang_after = n or cores(), hang_after or HANG_AFTER
        self._spawn = multiprocessing.get_context("spawn")  # a fork would inherit PyTorch's threads half-alive
        self._processes: dict[Connection, BaseProcess] = {}
        self._busy: dict[Connection, Work] = {}
        self._heard: dict[Connection, float] = {}  # when each gave its last sign of life
        self._begun: set[Connection] = set()  # those that gave one at all

    def __enter__(self) -> LocalWorkers:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def room(self) -> int:
        return self.n - len(self._busy)

    def submit(self, work: Work) -> None:
        idle = [connection for connection in self._processes if connection not in self._busy]
        connection = idle[0] if idle else self._begin()
        self._busy[connection] = work
        self._heard[connection] = time.monotonic()
        with suppress(BrokenPipeError):  # a process that is gone is noticed when its answer is read
            connection.send(work)

    def news(self, seconds: float) -> list[News]:
        """Every message that has arrived, and every process that has died or hangs."""
        ready = wait(list(self._busy), seconds)
        told = [self._read(connection) for connection in ready]
        hanging = [connection for connection in self._busy if connection not in ready and self._hangs(connection)]
        return [news for news in told if news is not None] + [self._ended(connection) for connection in hanging]

    def stop(self) -> None:
        """Ask every process once; whoever does not end in time is ended."""
        for process in self._processes.values():
            process.terminate()
        until = time.monotonic() + GRACE
        for connection, process in self._processes.items():
            _drain(connection, until)
            process.join(max(0.0, until - time.monotonic()))
            process.kill()
            process.join()
            connection.close()
        for known in (self._processes, self._busy, self._heard, self._begun):
            known.clear()

    def pids(self) -> list[int]:
        """The processes there are."""
        return [process.pid for process in self._processes.values() if process.pid is not None]

    def _begin(self) -> Connection:
        ours, theirs = self._spawn.Pipe()
        process = self._spawn.Process(target=_work, args=(theirs,))
        with with_environment(ONE_THREAD):
            process.start()
        theirs.close()  # so that the end of either side is seen by the other
        self._processes[ours] = process
        return ours

    def _read(self, connection: object) -> News | None:
        """The next message; None if it is a sign of life and nothing else."""
        assert isinstance(connection, Connection)
        try:
            news: News | None = connection.recv()
        except (EOFError, ConnectionResetError):
            return self._lost(connection)
        self._heard[connection] = time.monotonic()
        self._begun.add(connection)
        if news is not None and news.kind != "told":
            del self._busy[connection]
        return news

    def _hangs(self, connection: Connection) -> bool:
        """Whether it has been silent for too long; one that has yet to begin may take as long as by default."""
        limit = self.hang_after if connection in self._begun else max(self.hang_after, HANG_AFTER)
        return time.monotonic() - self._heard[connection] > limit

    def _ended(self, connection: Connection) -> News:
        """A process that hangs is ended, also if it was stopped by a signal and hears no other."""
        silent = time.monotonic() - self._heard[connection]
        self._processes[connection].kill()
        lost = self._lost(connection)
        return News(lost.key, "lost", f"{lost.text} It had given no sign of life for {silent:.0f} seconds.")

    def _lost(self, connection: Connection) -> News:
        work, process = self._busy.pop(connection), self._processes.pop(connection)
        self._heard.pop(connection)
        self._begun.discard(connection)
        process.join(GRACE)
        connection.close()
        return News(work.key, "lost", f"The process that ran {work.directory} ended with code {process.exitcode}.")


def _drain(connection: Connection, until: float) -> None:
    """Read on to the end: a process whose reports are not read may wait for it for ever, instead of saving."""
    with suppress(EOFError, ConnectionError):
        while connection.poll(max(0.0, until - time.monotonic())):
            connection.recv()


def _work(connection: Connection) -> None:
    """A worker's life: a job comes in, reports and its end go out, until the other side is gone."""
    import torch

    if hasattr(os, "setsid"):
        os.setsid()  # Ctrl-C reaches the parent only, which then asks every worker once
    try:
        while True:
            work: Work = connection.recv()
            torch.set_num_threads(work.config.resources.threads)
            with _signs_of_life(connection) as tell:
                tell(carry_out(work, tell))
    except (EOFError, ConnectionError, Interrupted, KeyboardInterrupt):
        return


@contextmanager
def _signs_of_life(connection: Connection) -> Iterator[Callable[[News | None], None]]:
    """How to send a message while another thread sends one of nothing every `BEAT` seconds."""
    over, one_at_a_time = threading.Event(), threading.Lock()

    def tell(news: News | None) -> None:
        with one_at_a_time:
            connection.send(news)

    def beat() -> None:
        with suppress(ConnectionError, OSError):  # the other side is gone, as the main thread will find
            while not over.wait(BEAT):
                tell(None)

    threading.Thread(target=beat, daemon=True).start()
    try:
        yield tell
    finally:
        over.set()


def seats(needs: Sequence[Resources]) -> int:
    """How many runs side by side keep this machine's cores busy."""
    return max(1, cores() // max((need.threads for need in needs), default=1))


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

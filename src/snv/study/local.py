"""Processes of this machine: each takes one run after the other, with as many threads as that asks for."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from snv.devices import Resources
from snv.errors import Interrupted
from snv.study.workers import News, Work, carry_out

GRACE = 30.0
"""Seconds a process may take to save what it has."""

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""Read once, when the libraries are loaded."""


class LocalWorkers:
    """At most ``n`` processes, begun when they are needed; use it as a context, after which all have ended."""

    def __init__(self, n: int | None = None) -> None:
        self.n = n or cores()
        self._spawn = multiprocessing.get_context("spawn")  # a fork would inherit PyTorch's threads half-alive
        self._processes: dict[Connection, BaseProcess] = {}
        self._busy: dict[Connection, Work] = {}

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
        with suppress(BrokenPipeError):  # a process that is gone is noticed when its answer is read
            connection.send(work)

    def news(self, seconds: float) -> list[News]:
        """Every message that has arrived, and every process that has died."""
        return [self._read(connection) for connection in wait(list(self._busy), seconds)]

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
        self._processes.clear()
        self._busy.clear()

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

    def _read(self, connection: object) -> News:
        assert isinstance(connection, Connection)
        try:
            news: News = connection.recv()
        except (EOFError, ConnectionResetError):
            return self._lost(connection)
        if news.kind != "told":
            del self._busy[connection]
        return news

    def _lost(self, connection: Connection) -> News:
        work, process = self._busy.pop(connection), self._processes.pop(connection)
        process.join(GRACE)
        connection.close()
        return News(work.key, "lost", f"The process that ran {work.directory} ended with code {process.exitcode}.")


def _drain(connection: Connection, until: float) -> None:
    """Read on to the end: a process whose reports are not read may wait for it for ever, instead of saving."""
    with suppress(EOFError, ConnectionError):
        while connection.poll(max(0.0, until - time.monotonic())):
            connection.recv()


@contextmanager
def with_environment(variables: dict[str, str]) -> Iterator[None]:
    """The environment that a process started in the block gets."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ |= variables
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _work(connection: Connection) -> None:
    """A worker's life: a job comes in, reports and its end go out, until the other side is gone."""
    import torch

    if hasattr(os, "setsid"):
        os.setsid()  # Ctrl-C reaches the parent only, which then asks every worker once
    try:
        while True:
            work: Work = connection.recv()
            torch.set_num_threads(work.config.resources.threads)
            connection.send(carry_out(work, connection.send))
    except (EOFError, ConnectionError, Interrupted, KeyboardInterrupt):
        return


def seats(needs: Sequence[Resources]) -> int:
    """How many runs side by side keep this machine's cores busy."""
    return max(1, cores() // max((need.threads for need in needs), default=1))


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

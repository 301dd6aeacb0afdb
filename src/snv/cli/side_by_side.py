"""Many short runs at once: one process per core, each takes the next run when it has finished one."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from snv.config import RunConfig
from snv.errors import Interrupted, UserError
from snv.runs import Interrupts, Progress, Record, RunDirectory, load_record, run

Job = tuple[RunConfig, Path]
"""A run, and its directory."""

LOOK = 0.2
"""Seconds between two looks whether a signal arrived."""

GRACE = 20.0
"""Seconds a process may take to save what it has."""


def run_all(jobs: Sequence[Job], progress: Progress = lambda *_: None) -> list[Record]:
    """The records of all runs, in order; those that are finished already are not repeated.

    The first error ends everything, as does a signal; the same call continues where it ended.
    """
    waiting = [job for job in jobs if not _is_finished(job)]
    if waiting:
        _work_off(waiting, len(jobs), progress)
    return [run(*job) for job in jobs]  # finished, so they are only read


def _is_finished(job: Job) -> bool:
    """Whether there is nothing left to do; a finished run with other settings is refused."""
    config, out = job
    if not RunDirectory(out).is_run() or load_record(out).status != "finished":
        return False
    return run(config, out).status == "finished"


def _work_off(jobs: list[Job], total: int, progress: Progress) -> None:
    queue, interrupts = list(reversed(jobs)), Interrupts()
    done = total - len(jobs)
    with interrupts.watched(), _workers(min(cores(), len(jobs))) as workers:
        busy = {connection: _hand_out(connection, queue) for connection in workers}
        while busy:
            progress("runs", done, total)
            for connection in wait(list(busy), LOOK):
                assert isinstance(connection, Connection)
                _check(connection, busy.pop(connection), workers[connection])
                done += 1
                if queue:
                    busy[connection] = _hand_out(connection, queue)
            if interrupts.signum is not None:
                raise Interrupted(interrupts.signum, str(jobs[0][1].parent))


def _hand_out(connection: Connection, queue: list[Job]) -> Path:
    job = queue.pop()
    with suppress(BrokenPipeError):  # a process that is gone is noticed when its answer is read
        connection.send(job)
    return job[1]


def _check(connection: Connection, out: Path, process: BaseProcess) -> None:
    """Raise what went wrong in a run, if anything did."""
    try:
        error = connection.recv()
    except (EOFError, ConnectionResetError):
        process.join(GRACE)
        raise UserError(
            f"The process that ran {out} ended with code {process.exitcode}. Run the same command again to continue."
        ) from None
    if error is not None:
        raise error


@contextmanager
def _workers(n: int) -> Iterator[dict[Connection, BaseProcess]]:
    """Processes that wait for jobs; all have ended when the block has, however it ends."""
    spawn = multiprocessing.get_context("spawn")  # a fork would inherit PyTorch's threads half-alive
    workers: dict[Connection, BaseProcess] = {}
    try:
        for _ in range(n):
            ours, theirs = spawn.Pipe()
            process = spawn.Process(target=_work, args=(theirs,), daemon=True)
            process.start()
            theirs.close()  # so that the end of either side is seen by the other
            workers[ours] = process
        yield workers
    finally:
        for worker in workers.values():
            worker.terminate()
        for worker in workers.values():
            worker.join(GRACE)
            worker.kill()
            worker.join()


def _work(connection: Connection) -> None:
    """A worker's life: a job comes in, None or what went wrong goes out, until the other side is gone."""
    if hasattr(os, "setsid"):
        os.setsid()  # Ctrl-C reaches the parent only, which then asks every worker once
    try:
        while True:
            config, out = connection.recv()
            try:
                run(config, out)
                connection.send(None)
            except (UserError, OSError) as error:
                connection.send(error)
    except (EOFError, ConnectionError, Interrupted):
        return


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

"""Many short runs at once, of which every one is wanted: the first that fails ends them all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from snv.config import RunConfig
from snv.errors import Interrupted, UserError
from snv.runs import Progress, Record, RunDirectory, load_record, run
from snv.study import LocalWorkers, News, Work, cores, do_all

Job = tuple[RunConfig, Path]
"""A run, and its directory."""


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


def _work_off(jobs: Sequence[Job], total: int, progress: Progress) -> None:
    done = total - len(jobs)
    works = [Work(str(out), config, out) for config, out in jobs]
    with LocalWorkers(min(cores(), len(jobs))) as workers:
        try:
            do_all(works, workers, _check, lambda _, n, __: progress("runs", done + n, total))
        except Interrupted as stop:
            raise Interrupted(stop.signum, str(jobs[0][1].parent)) from None


def _check(news: News) -> None:
    """Raise what went wrong in a run, if anything did."""
    if news.kind == "lost":
        raise UserError(f"{news.text} Run the same command again to continue.")
    if news.kind != "done":
        raise news.error or UserError(f"{news.text}. {news.details}")

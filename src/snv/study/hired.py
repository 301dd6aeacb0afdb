"""Who does the runs of a command: this machine's processes, or a Ray cluster; in a folder, or at a URL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from snv.config import RunConfig
from snv.runs import is_url
from snv.study.local import LocalWorkers, seats
from snv.study.mirrored import MirroredWorkers
from snv.study.ray_workers import RayWorkers
from snv.study.workers import Workers


@contextmanager
def hired(
    ray: str | None,
    jobs: int | None,
    place: str,
    folder: Path,
    configs: Sequence[RunConfig],
    hang_after: float | None = None,
) -> Iterator[Workers]:
    """Workers for these runs, in directories below ``folder``, which is ``place`` or what is at hand of that URL.

    A process here that gives no sign of life for ``hang_after`` seconds is replaced; Ray sees to its own.
    """
    needs = [config.resources for config in configs]
    with ExitStack() as ending:
        workers: Workers
        if ray is None:
            workers = ending.enter_context(LocalWorkers(jobs or seats(needs), hang_after))
        else:
            shared = None if is_url(place) else folder
            workers = ending.enter_context(RayWorkers(ray, needs, shared, jobs))
        yield MirroredWorkers(workers, folder, place) if is_url(place) else workers

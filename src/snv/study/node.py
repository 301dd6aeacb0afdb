"""What a node of a cluster does with a run that it is handed, in a process of its own."""

from __future__ import annotations

import dataclasses
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import snv
from snv.data import TaskStream
from snv.errors import Interrupted, UserError
from snv.study.workers import News, Work, carry_out

LEASE = 120.0
"""Seconds for which a network folder may take a node that is gone for one that still holds its files."""

PLACES = ("SNV_DATA", "SNV_CACHE")
"""Variables that say where data are."""


@dataclass(frozen=True)
class Origin:
    """What a node is told of the place the command was given at."""

    folder: str
    places: dict[str, str]
    token: Path | None  # a file in the folder that all nodes share, if they do

    @classmethod
    def here(cls, token: Path | None) -> Origin:
        return cls(str(Path.cwd()), {name: os.environ[name] for name in PLACES if name in os.environ}, token)

    def taken(self) -> None:
        """Paths mean here what they mean there, where there is such a folder; a node's own variables stand."""
        with suppress(OSError):
            os.chdir(self.folder)
        for name, value in self.places.items():
            os.environ.setdefault(name, value)

    def in_sight(self) -> bool:
        return self.token is None or (self.token.exists() and os.access(self.token.parent, os.W_OK))


def versions() -> dict[str, str]:
    """Of what makes the bits."""
    import torch

    return {"snv": snv.__version__, "torch": torch.__version__}


def look_around(origin: Origin) -> tuple[bool, dict[str, str]]:
    """Whether a node sees the shared folder, and what is installed there."""
    return origin.in_sight(), versions()


def unseen(origin: Origin, node: str) -> UserError:
    assert origin.token is not None
    return UserError(
        f"Node {node} of the cluster does not see {origin.token.parent}, or may not write there. Use a folder that all "
        "nodes have under the same path, or a URL such as s3://bucket/runs."
    )


def do(work: Work, stream: TaskStream | None, told: Any, origin: Origin, again: bool) -> News:
    """A run to its end, as anywhere. One whose node was lost before may have to wait until its directory is free."""
    import torch

    origin.taken()
    if not origin.in_sight():
        error = unseen(origin, platform.node())
        return News(work.key, "failed", str(error), error=error)
    if not work.config.resources.gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    torch.set_num_threads(work.config.resources.threads)
    tell = _teller(told)
    tell(News(work.key, "told", "begin"))
    try:
        with _at_hand(dataclasses.replace(work, stream=stream)) as job:
            until = time.monotonic() + (LEASE if again else 0.0)
            while (news := carry_out(job, tell)).kind == "in use" and time.monotonic() < until:
                time.sleep(1.0)
            return news
    except Interrupted:
        return News(work.key, "lost", f"The node that ran {work.directory} asked it to stop; it was saved.")


@contextmanager
def _at_hand(work: Work) -> Iterator[Work]:
    """What has a copy elsewhere is done in a folder of this node."""
    if work.url is None:
        yield work
        return
    with TemporaryDirectory(prefix="snv-") as scratch:
        yield dataclasses.replace(work, directory=Path(scratch, work.directory.name))


def _teller(told: Any) -> Callable[[News], None]:
    """Progress as plain values, for a queue that knows nothing of us."""

    def tell(news: News) -> None:
        told.actor.put_nowait.remote((news.key, news.text, news.share))

    return tell

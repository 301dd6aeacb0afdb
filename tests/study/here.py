"""A study of seconds, and workers that are this very process."""

from __future__ import annotations

from collections import deque
from pathlib import Path

from snv.study import News, Work, carry_out, load_study

STREAM = """
[data]
tasks = 2
classes = 4
per_class = 20

[network]
name = "mlp"
hidden = [8]

[train]
epochs = 1
"""

GROUP = """
[groups.tiny]
streams = ["stream.toml"]
methods = ["sgd", "ewc"]
"""


def written(folder: Path, text: str = GROUP, name: str = "study.toml") -> Path:
    """A study's file, with the stream it names beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "stream.toml").write_text(STREAM)
    (folder / name).write_text(text)
    return folder / name


def study_in(folder: Path, text: str = GROUP, *own_methods: str):
    return load_study(written(folder, text), own_methods)


class Here:
    """Runs one job after the other in this process, when it is asked for news."""

    def __init__(self) -> None:
        self.jobs: deque[Work] = deque()
        self.taken: list[str] = []  # run directories, in the order in which they came
        self.stopped = False

    def room(self) -> int:
        return 1 - len(self.jobs)

    def submit(self, work: Work) -> None:
        self.jobs.append(work)
        self.taken.append(work.directory.name)

    def news(self, seconds: float) -> list[News]:
        return [self.outcome(self.jobs.popleft())] if self.jobs else []

    def outcome(self, work: Work) -> News:
        return carry_out(work)

    def stop(self) -> None:
        self.stopped = True

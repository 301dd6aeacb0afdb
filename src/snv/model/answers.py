"""What the pictures show: the best classes of each, with calibrated probabilities."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from snv.errors import UserError
from snv.machine import halving
from snv.model.checked import fitting
from snv.model.knowledge import Knowledge
from snv.model.pictures import Progress, as_grey, as_pixels, is_one_image, picture_files, tried
from snv.shapes import Pixels

BATCH = 64
"""Pictures answered together, so that any number of them needs the same memory."""


@dataclass(frozen=True)
class Prediction:
    """The answer to one picture: the best classes first, with probabilities."""

    source: str
    best: tuple[tuple[str, str, float], ...] = ()  # (task, class, probability)
    error: str | None = None

    @property
    def label(self) -> str | None:
        return self.best[0][1] if self.best else None


def probabilities(knowledge: Knowledge, pixels: Pixels, t: int | None) -> Tensor:
    """Calibrated probabilities of the classes of task t, or of all."""
    with fitting():
        logits = knowledge.logits(pixels, t)
    if t is not None:
        return (logits / knowledge.tasks[t].temperature).softmax(1)
    temperatures = torch.tensor([task.open_temperature for task in knowledge.tasks])
    return (logits / float(temperatures.log().mean().exp())).softmax(1)


def _within_memory(knowledge: Knowledge, pixels: Pixels, t: int | None) -> Tensor:
    """The same, of fewer pictures at a time where memory runs out."""
    return halving(lambda n: torch.cat([probabilities(knowledge, part, t) for part in pixels.split(n)]), BATCH)[0]


def predictions(
    knowledge: Knowledge, data: Any, task: str | None, top: int, progress: Progress
) -> Iterator[Prediction]:
    """One answer after the other, in batches of constant memory."""
    if not knowledge.tasks:
        raise UserError("This model has learned nothing yet, so it has no answers. Let it learn a folder first.")
    t = None if task is None else knowledge.index(task)
    if top < 1:
        raise UserError(f"top is the number of answers to each picture, at least 1; got {top}.")
    queries, done = _queries(data, knowledge.preprocess.shape), 0
    while batch := list(islice(queries, BATCH)):
        yield from _answers(knowledge, batch, t, top)
        done += len(batch)
        progress("predicting", done, done)


def _queries(data: Any, shape: tuple[int, int, int]) -> Iterator[tuple[str, Tensor | UserError]]:
    """The name of each picture, and its pixels or what is wrong with it."""
    if isinstance(data, (str, Path)) or is_one_image(data, shape[0]):
        data = [data]
    if not isinstance(data, Iterable):
        raise UserError(f"Give picture files, folders, or images; got {type(data).__name__}.")
    for i, item in enumerate(data):
        if isinstance(item, (str, Path)):
            for file, picture in tried(picture_files([Path(item)]), shape[1]):
                yield str(file), as_grey(picture) if isinstance(picture, Tensor) and shape[0] == 1 else picture
        else:
            yield str(i), as_pixels(item, shape, f"Image {i}")


def _answers(
    knowledge: Knowledge, batch: list[tuple[str, Tensor | UserError]], t: int | None, top: int
) -> Iterator[Prediction]:
    readable = [picture for _, picture in batch if isinstance(picture, Tensor)]
    shares = iter(_within_memory(knowledge, torch.stack(readable), t) if readable else ())
    tasks = knowledge.tasks if t is None else [knowledge.tasks[t]]
    names = [(task.name, name) for task in tasks for name in task.classes]
    for source, picture in batch:
        if isinstance(picture, UserError):
            yield Prediction(source, error=str(picture))
            continue
        p, which = next(shares).topk(min(top, len(names)))
        best = tuple((*names[i], x) for i, x in zip(which.tolist(), p.tolist(), strict=True))
        yield Prediction(source, best)

"""What a learner may see: one task at a time, with copies of its own images and nothing else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from snv.data.split import Indices as SplitIndices
from snv.data.split import class_order, split_indices, task_sizes
from snv.errors import UserError
from snv.seeding import generator
from snv.shapes import Indices, Labels, Pixels

Judged = Literal["test", "validation"]
"""The images an accuracy is measured on: settings are chosen on validation images, results reported on test images."""


class Split(ABC):
    """Images with labels, read in batches; it owns its data, so nothing else can be reached from it."""

    labels: Labels

    def __len__(self) -> int:
        return len(self.labels)

    @abstractmethod
    def batches(self, order: Iterable[Indices]) -> Iterator[tuple[Pixels, Labels]]:
        """One batch of raw pixels and labels for every index vector of ``order``."""

    @abstractmethod
    def close(self) -> None:
        """Drop the images; any later use is an error."""


class InMemory(Split):
    """Images held as one uint8 tensor."""

    def __init__(self, pixels: Pixels, labels: Labels) -> None:
        self._pixels: Pixels | None = pixels
        self.labels = labels

    @property
    def pixels(self) -> Pixels:
        if self._pixels is None:
            raise RuntimeError("The images of this task are gone: a task's data exist only while it is learned.")
        return self._pixels

    def batches(self, order: Iterable[Indices]) -> Iterator[tuple[Pixels, Labels]]:
        for index in order:
            yield self.pixels[index], self.labels[index]

    def close(self) -> None:
        self._pixels = None

    @classmethod
    def joined(cls, splits: Sequence[InMemory]) -> InMemory:
        return cls(torch.cat([s.pixels for s in splits]), torch.cat([s.labels for s in splits]))


class Source(ABC):
    """A dataset: pooled images with labels 0..C−1, of one shape, and constants to standardise them with."""

    name: str
    labels: NDArray[np.int64]
    class_names: tuple[str, ...]
    shape: tuple[int, int, int]  # channels, height, width
    mean: tuple[float, ...]  # of pixels scaled to [0, 1], per channel, fixed in advance for every method
    std: tuple[float, ...]
    augmentation: str  # what training images may go through, one of snv.data.augment.AUGMENTATIONS

    @property
    def n_classes(self) -> int:
        return len(self.class_names)

    @abstractmethod
    def split(self, indices: NDArray[np.int64], labels: Labels) -> Split:
        """A split that owns copies of these images, under new labels."""


@dataclass(frozen=True)
class Task:
    """One task: its classes and its data. Labels are global: task t owns the consecutive indices of ``block``."""

    id: int
    block: range
    names: tuple[str, ...]
    train: Split
    val: Split
    test: Split | None

    def without_test(self) -> Task:
        """What a learner gets."""
        return replace(self, test=None)

    def close(self) -> None:
        for split in (self.train, self.val, self.test):
            if split is not None:
                split.close()


class TaskStream:
    """Tasks one after the other. Each call to `task` reads that task's images anew; the stream keeps none.

    With ``permuted`` every task has all classes of the source, and pixels shuffled by a fixed permutation of its own
    (the first task keeps them in place): as many tasks as wanted, every one equally hard.

    Judged on validation images, the stream has no test images at all: what is chosen with it cannot have seen them.
    """

    def __init__(
        self,
        source: Source,
        tasks: int | Sequence[int],
        seed: int,
        *,
        permuted: bool = False,
        n_classes: int | None = None,
        per_class: int | None = None,
        judged_on: Judged = "test",
    ) -> None:
        self.source, self.seed, self.permuted = source, seed, permuted
        self._per_class, self._judged_on = per_class, judged_on
        order = class_order(source.n_classes, seed)[: _checked(n_classes, source)]
        sizes = [len(order)] * _count(tasks) if permuted else task_sizes(len(order), tasks)
        starts = np.cumsum([0, *sizes]).tolist()
        self.blocks = [range(start, start + size) for start, size in zip(starts, sizes, strict=False)]
        self._classes = [order if permuted else order[b.start : b.stop] for b in self.blocks]

    def __len__(self) -> int:
        return len(self.blocks)

    @cached_property
    def _indices(self) -> SplitIndices:
        source = self.source
        indices = split_indices(source.labels, self.seed, source.class_names, per_class=self._per_class)
        return indices if self._judged_on == "test" else indices._replace(test=indices.val)

    def check(self) -> None:
        """Find out now whether every class can be split."""
        _ = self._indices

    def names(self, t: int) -> tuple[str, ...]:
        """What people call the classes of task t."""
        return tuple(self.source.class_names[c] for c in self._classes[t])

    def task(self, t: int) -> Task:
        """Task t with all three splits, freshly read."""
        train, val, test = (self._read(part, [t]) for part in self._indices)
        return Task(t, self.blocks[t], self.names(t), train, val, test)

    def upto(self, t: int) -> Task:
        """All tasks up to and including t as one, for learners that declare they keep everything."""
        tasks = list(range(t + 1))
        names = tuple(name for s in tasks for name in self.names(s))
        train, val = (self._read(part, tasks) for part in self._indices[:2])
        return Task(t, range(self.blocks[t].stop), names, train, val, None)

    def test(self, t: int) -> Split:
        """What task t is judged on: its test split, or its validation split."""
        return self._read(self._indices.test, [t])

    def _read(self, part: NDArray[np.int64], tasks: Sequence[int]) -> Split:
        if not self.permuted:
            return self.source.split(*self._relabelled(part, tasks))
        return InMemory.joined([self._shuffled(self.source.split(*self._relabelled(part, [t])), t) for t in tasks])

    def _relabelled(self, part: NDArray[np.int64], tasks: Sequence[int]) -> tuple[NDArray[np.int64], Labels]:
        """The positions of ``part`` that belong to these tasks, with their global labels."""
        new = np.full(self.source.n_classes, -1, np.int64)
        for t in tasks:
            new[self._classes[t]] = list(self.blocks[t])
        labels = new[self.source.labels[part]]
        return part[labels >= 0], torch.from_numpy(labels[labels >= 0])

    def _shuffled(self, plain: Split, t: int) -> InMemory:
        """The same images with the pixels of every image moved by task t's own permutation."""
        assert isinstance(plain, InMemory), "permuted streams are made of small images, which are held in memory"
        if t == 0:
            return plain
        pixels = plain.pixels.flatten(2)
        places = torch.randperm(pixels.shape[2], generator=generator(self.seed, "pixel permutation", t))
        return InMemory(pixels[:, :, places].reshape(plain.pixels.shape), plain.labels)


def _count(tasks: int | Sequence[int]) -> int:
    count = tasks if isinstance(tasks, int) else len(tasks)
    if count < 1:
        raise UserError(f"A stream has at least one task; got tasks = {tasks}.")
    return count


def _checked(n_classes: int | None, source: Source) -> int:
    """How many classes to use: all, or as many as were asked for and exist."""
    if n_classes is not None and not 1 <= n_classes <= source.n_classes:
        raise UserError(
            f"{source.name} has {source.n_classes} classes; got n_classes = {n_classes}. "
            f"Ask for 1 to {source.n_classes}, or leave it out for all."
        )
    return n_classes or source.n_classes

"""What a learner may see: one task at a time, with copies of its own images and nothing else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from snv.data.split import Indices as SplitIndices
from snv.data.split import Order, Parts, chosen_classes, class_order, official_indices, split_indices, task_sizes
from snv.errors import UserError
from snv.seeding import generator
from snv.shapes import Indices, Labels, Pixels

Judged = Literal["test", "validation"]
"""The images an accuracy is measured on: settings are chosen on validation images, results reported on test images."""

Half = Literal["first", "second"]
"""Of a stream's tasks: settings are chosen on the first, results reported on the second."""


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

    def n_official_test(self) -> int:
        """How many of the last images are the data set's own test images; 0 if it comes without such a part."""
        return 0

    def content(self) -> str | None:
        """A fingerprint that changes with any pixel; None if nobody knows it without reading every image."""
        return None

    @abstractmethod
    def split(self, indices: NDArray[np.int64], labels: Labels) -> Split:
        """A split that owns copies of these images, under new labels."""

    @abstractmethod
    def part(self, rows: NDArray[np.int64]) -> Source:
        """These images alone, with their labels: a source from which no other image can be reached."""


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

    ``order`` names the classes that come, one after the other or task by task; by default the seed decides.
    ``split`` is by our shares, or takes the data set's own test images.

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
        order: Order | None = None,
        split: Parts = "70/10/20",
    ) -> None:
        self.source, self.seed, self.permuted = source, seed, permuted
        self._per_class, self._judged_on, self._split = per_class, judged_on, split
        if order is None:
            row, given = class_order(source.n_classes, seed)[: _checked(n_classes, source)], None
        else:
            row, given = _ordered(order, source, n_classes, permuted)
        sizes = [len(row)] * _count(tasks) if permuted else given or task_sizes(len(row), tasks)
        starts = np.cumsum([0, *sizes]).tolist()
        self.blocks = [range(start, start + size) for start, size in zip(starts, sizes, strict=False)]
        self._classes = [row if permuted else row[b.start : b.stop] for b in self.blocks]
        self.n_told = len(self.blocks)  # how many tasks a learner is told there will be

    def __len__(self) -> int:
        return len(self.blocks)

    @cached_property
    def _indices(self) -> SplitIndices:
        source, per_class = self.source, self._per_class
        if self._split == "official":
            n_test = _official(source)
            indices = official_indices(source.labels, n_test, self.seed, source.class_names, per_class)
        else:
            indices = split_indices(source.labels, self.seed, source.class_names, per_class=per_class)
        return indices if self._judged_on == "test" else indices._replace(test=indices.val)

    def check(self) -> None:
        """Find out now whether every class can be split."""
        _ = self._indices

    # ---- streams made of this one

    def first(self) -> TaskStream:
        """The first task alone; a learner is told of as many tasks as before."""
        alone = self._only(range(1))
        alone.n_told = self.n_told
        return alone

    def half(self, which: Half) -> TaskStream:
        """The tasks with the first half of the classes, or those with the second, as a stream of their own."""
        if self.permuted or len(self) < 4:
            found = "their tasks have all classes in common" if self.permuted else f"there are {len(self)}"
            raise UserError(
                f"A stream has halves if it has at least four tasks with classes of their own; {found}. Ask for more "
                "tasks, or tune on the first task only."
            )
        n = self.blocks[-1].stop
        cut = min(range(2, len(self) - 1), key=lambda t: abs(2 * self.blocks[t].start - n))
        return self._only(range(cut) if which == "first" else range(cut, len(self)))

    def sealed(self) -> TaskStream:
        """The same tasks, judged on validation images, from a source that holds no other image: no test image at all.

        This stream's own source is not kept: once it is gone elsewhere, what was left out cannot be reached.
        """
        labels = self.source.labels
        mine = np.isin(labels, [c for classes in self._classes for c in classes])
        train, val, _ = (part[mine[part]] for part in self._indices)
        rows = np.union1d(train, val)
        other = copy(self)
        other.source, other._judged_on = self.source.part(rows), "validation"
        train, val = np.searchsorted(rows, train), np.searchsorted(rows, val)
        other._indices = SplitIndices(train, val, val)
        return other

    def _only(self, tasks: range) -> TaskStream:
        other = copy(self)
        other._classes = [self._classes[t] for t in tasks]
        start = self.blocks[tasks.start].start
        other.blocks = [range(b.start - start, b.stop - start) for b in (self.blocks[t] for t in tasks)]
        other.n_told = len(tasks)
        return other

    # ---- what is read

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


def _ordered(order: Order, source: Source, n_classes: int | None, permuted: bool) -> tuple[list[int], list[int] | None]:
    """The classes in the order asked for, and the sizes of the tasks if that says them."""
    row, sizes = chosen_classes(order, source.class_names)
    if n_classes is not None:
        raise UserError(f"data.order says which classes are used, {len(row)} of them. Leave data.classes out.")
    if permuted and sizes is not None:
        raise UserError("Every task of a permuted stream has all classes. Give data.order as one list of classes.")
    return row, sizes


def _official(source: Source) -> int:
    """How many test images the data set comes with."""
    if not (n_test := source.n_official_test()):
        raise UserError(f"{source.name} comes without test images of its own. Leave data.split at 70/10/20.")
    return n_test

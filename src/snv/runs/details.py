"""Beyond accuracy: what each class was taken for, at the newest evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snv.runs.evaluate import Answers


@dataclass(frozen=True, eq=False)
class Details:
    """Of the tasks learned so far, in the order in which they were learned; task known (TIL) or not (CIL)."""

    tasks: tuple[tuple[str, ...], ...]  # the names of each task's classes
    confusion: NDArray[np.int64]  # (C, C): test images of class i that were answered with class j
    top5: tuple[float | None, ...]  # of each task, percent; None where no more than five classes compete

    @classmethod
    def of(cls, tasks: Sequence[tuple[str, ...]], answers: Sequence[Answers]) -> Details:
        """From the answers to each task's images."""
        answers = answers[: len(tasks)]
        sizes = [len(names) for names in tasks]
        starts = np.cumsum([0, *sizes])
        confusion = np.zeros((sum(sizes), sum(sizes)), np.int64)
        for start, found in zip(starts[:-1], answers, strict=True):
            k, m = found.counts.shape
            left = start - found.first  # the first candidate
            confusion[start : start + k, left : left + m] = found.counts
        return cls(tuple(tasks), confusion, tuple(found.top5 for found in answers))

    @property
    def classes(self) -> tuple[str, ...]:
        """Their names in the order of the rows."""
        return tuple(name for names in self.tasks for name in names)

    @property
    def accuracy(self) -> NDArray[np.float64]:
        """Percent of each class's test images that were answered right."""
        right: NDArray[np.float64] = 100 * self.confusion.diagonal() / np.maximum(1, self.confusion.sum(1))
        return right

    def mistakes(self) -> list[tuple[int, int, int]]:
        """(class, answer, how often), the most frequent first."""
        wrong = self.confusion - np.diag(self.confusion.diagonal())
        found = [(int(i), int(j), int(wrong[i, j])) for i, j in np.argwhere(wrong)]
        return sorted(found, key=lambda mistake: -mistake[2])

    def as_json(self) -> dict[str, Any]:
        """A row of the confusion matrix is a text such as "0:31 4:2": 31 answers were class 0, and 2 were class 4."""
        return {
            "classes": [list(names) for names in self.tasks],
            "class_accuracy": self.accuracy.tolist(),
            "top5": list(self.top5),
            "confusion": [" ".join(f"{j}:{row[j]}" for j in np.flatnonzero(row)) for row in self.confusion],
        }

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Details:
        tasks = tuple(tuple(names) for names in stored["classes"])
        n = sum(map(len, tasks))
        confusion = np.zeros((n, n), np.int64)
        for i, row in enumerate(stored["confusion"]):
            for entry in row.split():
                j, count = entry.split(":")
                confusion[i, int(j)] = int(count)
        return cls(tasks, confusion, tuple(stored["top5"]))

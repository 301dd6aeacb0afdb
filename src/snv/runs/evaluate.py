"""One row of the accuracy matrix, by real evaluation, in TIL and CIL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from snv.data import Split
from snv.learners import Learner
from snv.machine import halving, ranks
from snv.shapes import Labels, Logits
from snv.training import Stage

FEW = 5
"""Answers that top-5 accuracy lets pass; where no more compete, all would be right."""


@dataclass(frozen=True, eq=False)
class Answers:
    """How the test images of one task were answered."""

    counts: NDArray[np.int64]  # (k, m): images of class i of the task, answered with candidate j
    first: int  # the candidate that is class 0 of the task
    among_five: int | None  # images whose class is among the five best, where more than five compete
    n: int  # images

    @property
    def accuracy(self) -> float:
        """Percent of right answers."""
        own = self.counts[:, self.first : self.first + len(self.counts)]
        return 100 * int(np.trace(own)) / self.n

    @property
    def top5(self) -> float | None:
        """Percent of images whose class is among the five best; None where no more than five compete."""
        return None if self.among_five is None else 100 * self.among_five / self.n


def accuracy(learner: Learner[Any], test: Split, block: range, known: bool | None = None) -> float:
    """Percent of test images of one task answered right: see `answers`."""
    return answers(learner, test, block, known).accuracy


@torch.inference_mode()
def answers(
    learner: Learner[Any],
    test: Split,
    block: range,
    known: bool | None = None,
    tell: Callable[[float], None] = lambda _: None,
) -> Answers:
    """How one task's test images are answered: within ``block`` if it is known, else among all classes seen.

    ``known`` is by default as the learner's scenario has it; ``tell`` hears what share of the images is done.

    Note: not known, a task that was not learned yet is answered wrong by definition: its classes are no candidates.
    """
    known = learner.setting.scenario == "til" if known is None else known
    if not known and block not in learner.blocks:
        return Answers(np.zeros((len(block), 0), np.int64), 0, None, len(test))
    work = partial(_answers, learner, test, block, known, tell)
    found, learner.at_once = halving(work, learner.at_once)
    return found


def _answers(
    learner: Learner[Any], test: Split, block: range, known: bool, tell: Callable[[float], None], at_once: int
) -> Answers:
    """The same of a block that can be answered, with so many images at a time."""
    learner.set_training(False, Stage("evaluate", learner.setting.train))
    of_task = f"{block.start} {'learned' if block in learner.blocks else 'to come'}"  # it may have its own network
    work, scope = f"evaluate {of_task if known else len(learner.blocks)}", block if known else None
    first = 0 if known else block.start
    counts, among_five, done = np.zeros((len(block), 0), np.int64), 0, 0
    tell(0)
    for images, labels in learner.setting.prepared(test, batch=at_once, shared=True):
        with learner.reporter.counted(work, len(labels)):
            logits = learner.logits(images, scope)
        counts = _counted(logits, labels - block.start, len(block)) + (counts if counts.size else 0)
        among_five += _among_five(logits, labels - block.start + first)
        done += len(labels)
        tell(done / len(test))
    parts = [part for part in ranks.everyones((counts, among_five)) if part[0].size]
    counts, among_five = np.sum([part[0] for part in parts], axis=0), sum(part[1] for part in parts)
    return Answers(counts, first, among_five if counts.shape[1] > FEW else None, len(test))


def _counted(logits: Logits, own: Labels, k: int) -> NDArray[np.int64]:
    """How many images of each of k classes are answered with each candidate."""
    m = logits.shape[1]
    places = own * m + logits.argmax(1)
    counts: NDArray[np.int64] = torch.bincount(places, minlength=k * m).reshape(k, m).cpu().numpy()
    return counts


def _among_five(logits: Logits, labels: Labels) -> int:
    """Images whose class is among the five with the largest logits."""
    best = logits.topk(min(FEW, logits.shape[1])).indices
    return int((best == labels[:, None]).sum())

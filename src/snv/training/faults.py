"""Training that goes wrong: how it is noticed, and what is said of it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import torch
from torch import Tensor

from snv.data import Task
from snv.errors import DivergedError
from snv.machine import halving
from snv.shapes import Images, Indices, Labels, Logits
from snv.training.setting import Setting
from snv.training.settings import TrainSettings
from snv.training.stage import Stage

if TYPE_CHECKING:
    from snv.training.reporter import Reporter

Fault: TypeAlias = dict[str, Any]
"""``task`` (from 1), ``kind``, ``text``; of a rate that was lowered also ``stage``, ``epoch``, ``step`` and ``lr``."""

RATE_LOWERED = "rate lowered"
"""Of a fault that was mended: an epoch began anew."""

EVERY = 50
"""Steps between two looks at the loss, each of which waits for the device; the last of an epoch is looked at too."""

EXPLODED = 1000.0
"""Times the loss of a stage's first step, or 1 if that was less."""

SLOWER = 0.1
"""Of the learning rate, once a stage has gone wrong."""

SURE = 1e-4
"""How rarely somebody who guesses would be taken for a network that went wrong."""

ENOUGH, OF_EACH = 500, 10
"""Validation images a task is judged by, evenly spaced if there are more: so many, or so many for each of its classes,
since with fewer a guesser may be right never."""


class WentWrong(Exception):  # noqa: N818 - what was found, on its way to where it is dealt with
    """A stage came to numbers from which it cannot go on."""


def check_loss(mean: float, last: float, first: float) -> None:
    """Of an epoch so far, its last step, and the stage's first: one outlier that training recovers from is none."""
    if not math.isfinite(mean):
        raise WentWrong(f"the training loss is {mean}")
    if min(mean, last) > EXPLODED * max(1.0, first):
        raise WentWrong(f"the training loss has grown from {first:.3g} to {last:.3g}, and is {mean:.3g} on average")


def check_outcome(loss: float, weights: Iterable[Tensor]) -> None:
    """Of an epoch: the validation loss, and all that moved. A gradient that is no number leaves such a weight."""
    if not math.isfinite(loss):
        raise WentWrong(f"the validation loss is {loss}")
    if not bool(torch.stack([weight.detach().isfinite().all() for weight in weights]).all()):
        raise WentWrong("weights are no numbers")


def rate_lowered(where: dict[str, Any], found: str, before: float, now: float) -> Fault:
    text = (
        f"Task {where['task']} went wrong: in epoch {where['epoch']} of stage {where['stage']}, at step "
        f"{where['step']}, {found}. Everything is as it was when that epoch began, and the stage goes on with a "
        f"learning rate of {now:g} instead of {before:g}. A train.lr of {now:g} from the start may do better."
    )
    return {**where, "kind": RATE_LOWERED, "lr": now, "text": text}


def diverged(where: dict[str, Any], found: str, settings: TrainSettings, now: float) -> DivergedError:
    what = (
        f"Training task {where['task']} diverged: in epoch {where['epoch']} of stage {where['stage']}, at step "
        f"{where['step']}, {found}, although the learning rate was lowered to {now:g} before."
    )
    return DivergedError(what, f"Lower train.lr (now {settings.lr:g}), set train.clip_norm, or check the data.")


def still_head(task: int, stage: str, parts: list[str]) -> Fault:
    text = (
        f"Task {task}: {' and '.join(parts)} of its head did not move in stage {stage}, so no gradient came there. "
        "Check that the loss depends on the logits of the task's own head, that the body's features are not all 0, and "
        "that train.lr is large enough to change a weight."
    )
    return {"task": task, "kind": "head without gradient", "stage": stage, "text": text}


# ---- what a task came to, on its own validation images


@runtime_checkable
class Answering(Protocol):
    """Who has learned a task."""

    at_once: int

    @property
    def reporter(self) -> Reporter: ...
    @property
    def setting(self) -> Setting: ...
    @property
    def blocks(self) -> list[range]: ...
    def set_training(self, training: bool, stage: Stage) -> None: ...
    def logits(self, images: Images, block: range | None) -> Logits: ...


@torch.no_grad()
def judged(learner: Answering, task: Task) -> list[Fault]:
    """What is wrong with the answers to validation images of the newest task, which is known."""
    block = learner.blocks[-1]
    mine = torch.tensor([label in block for label in task.val.labels.tolist()]).nonzero().flatten()
    if len(mine) == 0 or len(block) < 2:
        return []
    n = min(len(mine), max(ENOUGH, OF_EACH * len(block)))
    rows = mine[torch.arange(n) * len(mine) // n]
    answers, learner.at_once = halving(partial(_answers, learner, task, rows), learner.at_once)
    names = task.names[block.start - task.block.start :][: len(block)]
    return answers_judged(task.id + 1, answers, task.val.labels[rows] - block.start, names)


def _answers(learner: Answering, task: Task, rows: Indices, at_once: int) -> Labels:
    """To these validation images, so many at a time."""
    learner.set_training(False, Stage("evaluate", learner.setting.train))
    answers = []
    for images, labels in learner.setting.prepared(task.val, rows, batch=at_once):
        with learner.reporter.counted(f"judge {task.id}", len(labels)):
            answers.append(learner.logits(images, learner.blocks[-1]).argmax(1))
    return torch.cat(answers).cpu()


def answers_judged(task: int, answers: Labels, labels: Labels, names: tuple[str, ...]) -> list[Fault]:
    """One class for all, or fewer right ones than a guesser has."""
    n, k, right = len(labels), len(names), int((answers == labels).sum())
    if bool((answers == answers[0]).all()) and k ** -float(n - right) < SURE:
        text = (
            f"Task {task}: all {n} validation images are answered with the class {names[int(answers[0])]!r}, and "
            f"{n - right} of them show another. It has not learned to tell its classes apart: try a lower train.lr, "
            "more epochs, or look at the images."
        )
        return [{"task": task, "kind": "constant answers", "text": text}]
    if (chance := at_most(right, n, 1 / k)) < SURE:
        text = (
            f"Task {task}: {right} of {n} validation images are answered right, where guessing one of {k} classes is "
            f"right {n / k:.0f} times, and as seldom as here with probability {chance:.0e}. Check that the labels of "
            "training and validation images mean the same."
        )
        return [{"task": task, "kind": "below chance", "text": text}]
    return []


def at_most(right: int, n: int, p: float) -> float:
    """P(X ≤ right) of a binomial X of n draws with probability p."""
    return sum(math.exp(_log_choose(n, i) + i * math.log(p) + (n - i) * math.log1p(-p)) for i in range(right + 1))


def _log_choose(n: int, i: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1)

"""A run whose steps need more memory than there is: it goes on with steps in parts, or stops and says why."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from torch import nn

from snv.errors import ShortOfMemoryError, UserError
from snv.learners import Learner
from snv.machine import ranks
from snv.runs.record import Record

log = logging.getLogger(__name__)


def parts_after(error: ShortOfMemoryError, learner: Learner[Any], out: Path) -> int:
    """Twice as many parts as before, unless the method or the size of a batch does not allow it."""
    parts, n = 2 * learner.parts, error.images
    reason = _reason_for_whole(learner)
    if reason or n // parts < 2:
        now = learner.setting.train.batch_size
        raise out_of_memory(f"{error}{reason} Lower train.batch_size (now {now}) with a new --out.", out) from error
    log.warning(
        "%s The run goes on from its last checkpoint with every step in %d parts, whose gradients are added up: %s.",
        error,
        parts,
        f"BatchNorm then sees {n // parts} images at a time instead of {n}, so results are others"
        if _mixes_images(learner)
        else "the same up to rounding",
    )
    return parts


def _reason_for_whole(learner: Learner[Any]) -> str:
    """Why its steps cannot be made in parts, if so; of a method derived from another the loss may be another."""
    if ranks.size() > 1:
        return " Processes that train together do not make steps in parts: start more of them."
    adds_up = learner.card.adds_up and "card" in vars(type(learner))
    return "" if adds_up else " This method does not make its steps in parts."


def note_parts(record: Record, learner: Learner[Any], task: int) -> None:
    """A learner takes as many parts as the record says; if it has more, the record is told from which task on."""
    noted = record.lowered[-1]["parts"] if record.lowered else 1
    learner.parts = max(learner.parts, noted)
    if learner.parts > noted:
        record.lowered.append({"task": task + 1, "parts": learner.parts, "same": not _mixes_images(learner)})


def out_of_memory(what: str, out: Path) -> UserError:
    """What is kept, and what is left to do."""
    return UserError(
        f"{what} Everything up to the last checkpoint is in {out}: with more memory free, the same command continues."
    )


def _mixes_images(learner: Learner[Any]) -> bool:
    """Whether what a step makes of an image depends on the others that go through the network with it."""
    return any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in learner.network.modules())

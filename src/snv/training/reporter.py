"""Who hears of a learner's work: what it counts as, how far it is, every step and every epoch."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from snv.training.faults import Fault

if TYPE_CHECKING:
    from snv.training.loop import Training

log = logging.getLogger(__name__)


def _nothing(*_: object) -> AbstractContextManager[None]:
    return nullcontext()


def said(fault: Fault) -> None:
    """A fault in words, for whoever follows the log."""
    log.warning("%s", fault["text"])


def note_of(listener: object) -> Callable[[Callable[[], str]], None]:
    """Where a listener takes remarks, as functions that it calls when it has room for one; nowhere, if it has none."""
    note: Callable[[Callable[[], str]], None] = getattr(listener, "note", lambda _: None)
    return note


def loss_so_far(training: Training) -> str:
    """A remark: the mean loss of the epoch under way. To ask for it waits for the device."""
    at = training.progress
    return f"loss {float(at.loss) / at.images:.3g}" if at.images else ""


@dataclass(frozen=True)
class Reporter:
    """By default nobody, but for faults. The first three surround work, the others are told of it."""

    phase: Callable[[str], AbstractContextManager[None]] = _nothing  # whatever counts as this phase
    counted: Callable[[str, int], AbstractContextManager[None]] = _nothing  # work on a batch of this kind and size
    step: Callable[[], AbstractContextManager[None]] = _nothing  # an update of the weights
    tell: Callable[[str, float, float], None] = lambda *_: None  # what is being done, how much of how much
    on_step: Callable[[Training], None] = lambda _: None
    on_epoch: Callable[[dict[str, Any]], None] = lambda _: None
    warn: Callable[[Fault], None] = said

"""Who hears of a learner's work: what it counts as, how far it is, every step and every epoch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from snv.training.loop import Training


def _nothing(*_: object) -> AbstractContextManager[None]:
    return nullcontext()


@dataclass(frozen=True)
class Reporter:
    """By default nobody. The first three surround work, the others are told of it."""

    phase: Callable[[str], AbstractContextManager[None]] = _nothing  # whatever counts as this phase
    counted: Callable[[str, int], AbstractContextManager[None]] = _nothing  # work on a batch of this kind and size
    step: Callable[[], AbstractContextManager[None]] = _nothing  # an update of the weights
    tell: Callable[[str, float, float], None] = lambda *_: None  # what is being done, how much of how much
    on_step: Callable[[Training], None] = lambda _: None
    on_epoch: Callable[[dict[str, Any]], None] = lambda _: None

"""Memory that runs out: how it is recognised, and work that goes on with less at once."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from typing import TypeVar

import torch

from snv.machine import ranks

log = logging.getLogger(__name__)

SIGNS = (
    "DefaultCPUAllocator",
    "can't allocate memory",
    "Cannot allocate memory",
    "not enough memory",
    "out of memory",
    "could not create a ",  # memory object, or primitive
)
"""What PyTorch and its CPU library say, for want of an error of its own."""

T = TypeVar("T")


def is_shortage(error: BaseException) -> bool:
    """Whether memory could not be had: of a GPU, by PyTorch on a processor, or by Python."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in SIGNS)


def halving(work: Callable[[int], T], size: int, least: int = 1) -> tuple[T, int]:
    """What ``work`` makes with this size, or with half of it, and half of that, until memory suffices; and the size.

    For work that may be begun again and comes to the same, up to rounding, whatever the size. Not that of processes
    that work together: each counts on the others to have the same size.
    """
    if ranks.size() > 1:
        return work(size), size
    while True:
        try:
            return work(size), size
        except Exception as error:
            if not is_shortage(error) or size // 2 < least:
                raise
            reason = told(error)
        size //= 2
        let_go()  # only here: the error held what the failed attempt had
        log.warning("Memory ran out (%s). Going on with half as much at once: the same up to rounding.", reason)


def told(error: BaseException) -> str:
    """What an error says, in one line."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def let_go() -> None:
    """Give back what nobody needs any more."""
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()

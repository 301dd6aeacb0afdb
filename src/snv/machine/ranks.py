"""One training, many processes: who is who, and what they tell each other. Alone, nothing here does anything.

`torchrun` starts the processes. They are together only while a block under `together` runs: there every process calls
the same functions of this file in the same order.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from snv.errors import UserError

P = ParamSpec("P")
T = TypeVar("T")


class LostError(UserError):
    """Another process of this training is gone."""


class _Now:
    """Whether processes work together at this moment."""

    together = False


# ---- who is who


def started() -> int:
    """How many processes torchrun started, whether they work together or not."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def speaks() -> bool:
    """Whether this process is the one that people hear of: the first, or the only one."""
    return started() == 1 or os.environ.get("RANK", "0") == "0"


def local_rank() -> int:
    """The number of this process among those of its machine."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def size() -> int:
    """How many processes work together."""
    return dist.get_world_size() if _Now.together else 1


def rank() -> int:
    """The number of this process among them."""
    return dist.get_rank() if _Now.together else 0


def first() -> bool:
    return rank() == 0


@contextmanager
def together() -> Iterator[None]:
    """All that torchrun started work together while the block runs."""
    if started() == 1 or _Now.together:
        yield
        return
    if not dist.is_initialized():
        _join()
    _Now.together = True
    try:
        yield
        largest(0)  # nobody leaves while another is still being told something
    finally:
        _Now.together = False


def _join() -> None:
    """Numbers on a GPU travel from GPU to GPU, all others through the processors."""
    gpus = torch.cuda.is_available()
    if gpus:
        torch.cuda.set_device(local_rank())
        torch.backends.cudnn.deterministic = True  # what every process does for itself has to come out alike
    with _others_may_be_gone():
        dist.init_process_group("cpu:gloo,cuda:nccl" if gpus else "gloo")
    atexit.register(dist.destroy_process_group)


@contextmanager
def _alone() -> Iterator[None]:
    """What the block calls concerns this process only."""
    before, _Now.together = _Now.together, False
    try:
        yield
    finally:
        _Now.together = before


@contextmanager
def _others_may_be_gone() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise LostError(
            f"Another of the {started()} processes of this training has ended or cannot be reached "
            f"({str(error).splitlines()[0]}). What was saved is intact: run the same command again to continue."
        ) from error


# ---- numbers


def add_up(x: Tensor) -> None:
    """Put the sum over all processes into ``x``: the same bits everywhere."""
    if size() > 1:
        with _others_may_be_gone():
            dist.all_reduce(x)


def total(*numbers: float) -> tuple[float, ...]:
    """Each number, added up over all processes; whole ones exactly."""
    if size() == 1:
        return numbers
    sums = torch.tensor(numbers, dtype=torch.float64)
    add_up(sums)
    return tuple(sums.tolist())


def largest(*numbers: int) -> tuple[int, ...]:
    """The largest that any process has of each number."""
    if size() == 1:
        return numbers
    most = torch.tensor(numbers)
    with _others_may_be_gone():
        dist.all_reduce(most, dist.ReduceOp.MAX)
    return tuple(most.tolist())


# ---- anything else


def everyones(value: T) -> list[T]:
    """What each process has, in the order of their numbers."""
    if size() == 1:
        return [value]
    values: list[Any] = [None] * size()
    with _others_may_be_gone():
        dist.all_gather_object(values, value)
    return values


def told(function: Callable[P, T]) -> Callable[P, T]:
    """Only the first process calls the function; the others are told what it returned, or why it refused."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if size() == 1:
            return function(*args, **kwargs)
        outcome = [_outcome(lambda: function(*args, **kwargs)) if first() else None]
        with _others_may_be_gone():
            dist.broadcast_object_list(outcome, device=torch.device("cpu"))
        assert outcome[0] is not None
        value, refusal = outcome[0]
        if refusal is not None:
            raise refusal
        return value  # type: ignore[return-value]

    return call


def _outcome(call: Callable[[], T]) -> tuple[T | None, UserError | None]:
    with _alone():
        try:
            return call(), None
        except UserError as error:
            return None, error


def by_first(function: Callable[P, None]) -> Callable[P, None]:
    """Only the first process calls the function."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> None:
        if first():
            function(*args, **kwargs)

    return call


# ---- a share of the work


@dataclass(frozen=True)
class Part:
    """What one of several processes takes of some rows."""

    rows: slice
    of: int  # all rows there are

    @property
    def weight(self) -> float:
        """Of a mean over its rows, in the mean over all of them."""
        return len(range(self.of)[self.rows]) / self.of


def part_of(n: int) -> Part | None:
    """Every process takes every ``size()``-th of n rows; None: all do all of it, as one does, or too few rows do."""
    return Part(slice(rank(), None, size()), n) if 1 < size() <= n else None


def interleaved(mine: list[T]) -> list[T]:
    """What all processes made of every ``size()``-th item each, in the order of the items."""
    parts = everyones(mine)
    return [part[i] for i in range(len(parts[0])) for part in parts if i < len(part)]


def require_alike(mark: str, when: str) -> None:
    """Stop if what the processes hold at the same moment is not the same."""
    marks = everyones(mark)
    if others := [number for number, other in enumerate(marks) if other != marks[0]]:
        raise UserError(
            f"The processes of this training have drifted apart: {when}, process {others[0]} holds other bits than "
            "process 0. Nothing was saved after the last checkpoint, which is the same for all: run the same command "
            "again to continue from it, on processors or GPUs of one kind."
        )

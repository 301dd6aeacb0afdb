"""What fits: how many neurons each coming task can have, told before training starts."""

from __future__ import annotations

import math
from dataclasses import dataclass

from snv.errors import UserError


@dataclass(frozen=True)
class Plan:
    """The course of a stream of equal tasks through a network of ``n`` neurons."""

    n: int
    before: int  # neurons frozen already
    new: tuple[int, ...]  # neurons each task freezes

    @property
    def used(self) -> tuple[int, ...]:
        """Neurons frozen after each task."""
        return tuple(self.before + sum(self.new[: t + 1]) for t in range(len(self.new)))

    @property
    def full_after(self) -> int | None:
        """The task after which no neuron is left, counted from 1; None if some are left at the end."""
        return next((t + 1 for t, used in enumerate(self.used) if used >= self.n), None)

    def __str__(self) -> str:
        if self.full_after is None:
            return f"{len(self.new)} tasks leave {self.n - self.used[-1]:,} of {self.n:,} neurons free."
        later = len(self.new) - self.full_after
        then = f"; the {later} after it reuse frozen neurons only" if later else ""
        return f"The network of {self.n:,} neurons is full after task {self.full_after} of {len(self.new)}{then}."


def plan(
    n_neurons: int,
    capacity: float,
    tasks: int,
    overlap: float = 0.0,
    used: int = 0,
    remaining: bool = False,
    least: int = 1,
) -> Plan:
    """What ``tasks`` more tasks freeze if each keeps ``capacity``·N neurons, a share ``overlap`` of them frozen before.

    ``used`` neurons are frozen already. The first task of an empty network has nothing to overlap with. With
    ``remaining`` a task takes its share of the neurons still free instead. No task takes fewer than ``least``, such as
    one in every layer, while there are so many.
    """
    if not 0 < capacity <= 1:
        raise UserError(f"capacity is the share of neurons a task keeps, in (0, 1]; got {capacity}. Try 0.1.")
    if not 0 <= overlap < 1:
        raise UserError(f"overlap is the share of a task's neurons that are frozen already, in [0, 1); got {overlap}.")
    if tasks < 1 or n_neurons < 1:
        raise UserError(f"A plan needs at least one task and one neuron; got {tasks} and {n_neurons}.")
    new: list[int] = []
    for _ in range(tasks):
        frozen = used + sum(new)
        wanted = max(least, _wanted(n_neurons, capacity, overlap, frozen, remaining))
        new.append(min(wanted, n_neurons - frozen))
    return Plan(n_neurons, used, tuple(new))


def tasks_that_fit(
    n_neurons: int, capacity: float, overlap: float = 0.0, used: int = 0, remaining: bool = False, least: int = 1
) -> int:
    """How many more tasks get all the new neurons they ask for, and at least ``least``."""
    fit = 0
    while least <= (wanted := _wanted(n_neurons, capacity, overlap, used, remaining)) <= n_neurons - used:
        used, fit = used + wanted, fit + 1
    return fit


def _wanted(n_neurons: int, capacity: float, overlap: float, used: int, remaining: bool) -> int:
    """New neurons a task asks for, at least one."""
    among = n_neurons - used if remaining else n_neurons
    return max(1, math.floor(capacity * among * (1 - overlap if used else 1)))

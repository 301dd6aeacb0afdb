"""How many neurons a task asks for and gets: one rule, which the learner follows and the planner foretells."""

from __future__ import annotations

import math
from dataclasses import dataclass

from snv.errors import UserError
from snv.neurons import Neurons
from snv.shapes import Mask, Values


@dataclass(frozen=True)
class Budget:
    """What a task may take of a network: a share of its neurons, at least one for every layer, never too many."""

    n: int  # neurons of the network
    capacity: float  # c: the share a task asks for
    of_free: bool = False  # of the neurons still free instead of all
    layers: int = 1
    largest: int | None = None  # neurons a subnetwork may have
    overlap: float = 0.0  # share of its neurons that a task is expected to find among frozen ones, where those count

    def __post_init__(self) -> None:
        if not 0 < self.capacity <= 1:
            raise UserError(f"capacity is the share of neurons a task keeps, in (0, 1]; got {self.capacity}. Try 0.1.")
        if not 0 <= self.overlap < 1:
            raise UserError(
                f"overlap is the share of a task's neurons that are frozen already, in [0, 1); got {self.overlap}."
            )
        if self.n < 1:
            raise UserError(f"A network has at least one neuron; got {self.n}.")

    def asked(self, frozen: int) -> int:
        """New neurons a task asks for when so many are frozen; the first task has nothing to overlap with."""
        among = self.n - frozen if self.of_free else self.n
        share = math.floor(self.capacity * among * (1 - self.overlap if frozen else 1))
        return max(self.layers, share if self.largest is None else min(share, self.largest))

    def granted(self, frozen: int) -> int:
        """New neurons it gets."""
        return min(self.asked(frozen), self.n - frozen)

    def plan(self, tasks: int, frozen: int = 0) -> Plan:
        """The course of so many more tasks."""
        if tasks < 1:
            raise UserError(f"A plan needs at least one task; got {tasks}.")
        new: list[int] = []
        for _ in range(tasks):
            new.append(self.granted(frozen + sum(new)))
        return Plan(self.n, frozen, tuple(new))

    def tasks_that_fit(self, frozen: int = 0) -> int:
        """How many more tasks get all the new neurons they ask for."""
        fit = 0
        while self.asked(frozen) <= self.n - frozen:
            frozen, fit = frozen + self.asked(frozen), fit + 1
        return fit

    def shortage(self, number: int, frozen: int, free_weights: int) -> str | None:
        """What the user of task ``number`` should know before it starts, if it gets less than it asks for."""
        advice = "A wider network (network.width) or a smaller learner.capacity leaves"
        if frozen == self.n:
            return (
                f"Task {number} finds the network full: all {self.n:,} neurons are frozen, so it reuses them with its "
                f"own norm state and head; of the weights between them, {free_weights:,} are still free. {advice} room."
            )
        if self.granted(frozen) < self.asked(frozen):
            return (
                f"Task {number} gets {self.granted(frozen):,} new neurons instead of {self.asked(frozen):,}: that is "
                f"all that is left of {self.n:,}. {advice} more."
            )
        return None


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


# ---- without reuse: every task has its part of every layer


def check_parts(neurons: Neurons, frozen: Mask, number: int, n_tasks: int) -> None:
    """Refuse task ``number`` (from 1) if a layer has less than one free neuron for it and for each task after it."""
    left = _tasks_left(number, n_tasks)
    for layer, taken in neurons.by_layer(frozen):
        if (free := int((~taken).sum())) < left:
            raise UserError(
                f"Task {number} does not fit: {layer.name} has {free} free neurons for {left} tasks, and "
                "learner.reuse=none forbids using frozen ones. Allow reuse, widen the network or plan fewer tasks."
            )


def outside_part(values: Values, neurons: Neurons, frozen: Mask, number: int, n_tasks: int) -> Mask:
    """What task ``number`` may not have: frozen neurons, and of every layer all but its own part, the best ones."""
    barred = frozen.clone()
    for layer, taken in neurons.by_layer(frozen):
        part = int((~taken).sum()) // _tasks_left(number, n_tasks)
        best = values[layer.neurons].masked_fill(taken, -math.inf).argsort(descending=True, stable=True)
        barred[layer.start + best[part:]] = True
    return barred


def _tasks_left(number: int, n_tasks: int) -> int:
    """Task ``number`` and those after it; a stream may turn out longer than planned."""
    return max(1, n_tasks - number + 1)

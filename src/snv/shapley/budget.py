"""What an estimation may cost, what it has cost, and how it ends: done, out of budget, stopped, interrupted."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, TypeVar

import torch

from snv.errors import UserError, unknown
from snv.files import State
from snv.seeding import generator
from snv.shapes import Indices
from snv.shapley.agreement import Number, how_many
from snv.shapley.game import Coalitions, Game, Payoffs
from snv.shapley.result import Valuation

Progress = Callable[[str, Number, Number], None]
"""progress(phase, done, total), called after every draw."""


def require(ok: bool, message: str) -> None:
    """Refuse a setting with a sentence the user can act on."""
    if not ok:
        raise UserError(message)


@dataclass(frozen=True)
class Budget:
    """Limits of one call. They are looked at before every chunk of work, so the last chunk may end a little late."""

    max_evaluations: Number = math.inf  # in V(S) on all data; a gradient counts 3
    max_seconds: Number = math.inf
    stop: Callable[[], bool] | None = None  # asked before every chunk; True ends with the estimate so far
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        require(self.max_evaluations > 0, f"max_evaluations must be positive; got {self.max_evaluations}.")
        require(self.max_seconds > 0, f"max_seconds must be positive; got {self.max_seconds}.")


UNLIMITED = Budget()


@dataclass(frozen=True)
class Settings:
    """What every estimator takes; each adds its own. ``may_change`` names what a continued run may set anew."""

    k: Number = 0.1  # the top-k the values are for: a share, or a number of players

    may_change: ClassVar[frozenset[str]] = frozenset({"chunk"})

    def __post_init__(self) -> None:
        how_many(self.k, max(1, int(self.k)))  # whether k exceeds the players shows when there is a game

    def lasting(self) -> State:
        """The settings that must agree for two runs to be parts of one."""
        return {name: value for name, value in asdict(self).items() if name not in self.may_change}

    def forecast(self, game: Game) -> float:
        """The evaluations a run on ``game`` costs at most, known before it starts."""
        raise NotImplementedError


AnySettings = TypeVar("AnySettings", bound=Settings)


class Stop(Exception):  # noqa: N818 - it ends a phase early, nothing is wrong
    """Says why; caught by `Meter.phase`."""


class Meter:
    """What one call has spent, and whether it may go on."""

    def __init__(self, game: Game, budget: Budget, progress: Progress | None, resume: Valuation | None) -> None:
        self.game, self.budget, self.progress = game, budget, progress
        self.stopped = ""  # filled when a phase ended early
        self.seconds = {} if resume is None else dict(resume.seconds)
        self._earlier = 0.0 if resume is None else resume.evaluations
        self._first = game.evaluations
        self._started = budget.clock()
        self._phase = ""

    @property
    def spent(self) -> float:
        """Evaluations of this call."""
        return self.game.evaluations - self._first

    @property
    def evaluations(self) -> float:
        """Evaluations of this call and of those it continues."""
        return self._earlier + self.spent

    def affordable(self, cost: Number) -> bool:
        return self.spent + cost <= self.budget.max_evaluations * (1 + 1e-9)

    def how_often(self, cost: Number, most: int) -> int:
        """How often ``cost`` can still be paid, at least once and at most ``most`` times."""
        left = self.budget.max_evaluations * (1 + 1e-9) - self.spent
        return max(1, int(min(most, left / max(cost, 1e-12))))

    def need(self, cost: Number, what: str) -> None:
        """Refuse at once what can never give an answer."""
        if not self.affordable(cost):
            raise UserError(
                f"max_evaluations = {self.budget.max_evaluations:g} does not pay for {what}, "
                f"which takes {cost:g}. Allow at least that many, or choose a cheaper method."
            )

    def check(self, cost: Number = 0.0) -> None:
        """Go on only if another ``cost`` evaluations are allowed, time is left and nobody asked to stop."""
        if not self.affordable(cost):
            raise Stop("max_evaluations reached")
        if self.budget.clock() - self._started >= self.budget.max_seconds:
            raise Stop("max_seconds reached")
        if self.budget.stop is not None and self.budget.stop():
            raise Stop("stopped by the caller")

    def values(self, coalitions: Coalitions, rows: Indices | None = None) -> Payoffs:
        """V(S) of each coalition, if they can be paid for."""
        self.check(len(coalitions) * (1.0 if rows is None else len(rows) / self.game.n_examples))
        return self.game.values(coalitions, rows)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time a phase; if it is out of budget or interrupted, say so in ``stopped`` and leave it."""
        started, self._phase = self.budget.clock(), name
        try:
            yield
        except Stop as reason:
            self.stopped = str(reason)
        except KeyboardInterrupt:
            self.stopped = "interrupted"
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + self.budget.clock() - started

    def report(self, done: Number, total: Number) -> None:
        if self.progress is not None:
            self.progress(self._phase, done, total)


def share_of_data(game: Game, minibatch: int | None) -> float:
    """What one V(S) on a minibatch costs."""
    if minibatch is None or not game.samples_examples:
        return 1.0
    return min(1.0, minibatch / game.n_examples)


def rows_of_draw(game: Game, minibatch: int | None, seed: int, draw: int) -> Indices | None:
    """The examples of one draw: the next block of a shuffled pass through the data; None means all of them.

    A pure function of ``draw``, so that a continued run sees what an uninterrupted one would have seen.
    """
    if minibatch is None or share_of_data(game, minibatch) == 1.0:
        return None
    turn, block = divmod(draw, game.n_examples // minibatch)
    order = torch.randperm(game.n_examples, generator=generator(seed, "examples", turn))
    return order[block * minibatch : (block + 1) * minibatch]


def settings_from(kind: type[AnySettings], given: dict[str, Any]) -> AnySettings:
    """Settings by name; an unknown name is answered with those that exist."""
    known = [field.name for field in fields(kind)]
    for name in given:
        if name not in known:
            raise unknown(f"setting of {kind.__name__}", name, known)
    return kind(**given)

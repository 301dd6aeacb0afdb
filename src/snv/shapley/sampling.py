"""One call of an estimator, and the one loop of all of them: pay, draw, add, report, stop."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypedDict, TypeVar, runtime_checkable

import torch

from snv.files import State
from snv.shapes import Mask
from snv.shapley.agreement import Cut, Number
from snv.shapley.budget import UNLIMITED, Budget, Meter, Progress, Settings, require
from snv.shapley.game import Game
from snv.shapley.moments import Halves
from snv.shapley.result import Valuation


class Call(TypedDict, total=False):
    """What every estimator takes besides its game and its settings."""

    seed: int
    budget: Budget
    progress: Progress | None
    resume: Valuation | None  # the result to continue
    candidates: Mask | None  # who competes for the k places; None: everyone


@runtime_checkable
class Sample(Protocol):
    """The observations of draws 0, 1, 2, …, or what is kept of them."""

    @property
    def draws(self) -> int: ...

    def extend(self, observations: Any, /) -> Any:
        """The sample with the observations of the next draws."""
        ...


AnySample = TypeVar("AnySample", bound=Sample)


def never(_sample: Sample) -> str:
    """No reason to end before all draws are made."""
    return ""


class Estimation:
    """One call of an estimator: its game, its seed, what it continues, what it has spent, and its result."""

    def __init__(
        self,
        method: str,
        game: Game,
        settings: Settings,
        *,
        seed: int = 0,
        budget: Budget = UNLIMITED,
        progress: Progress | None = None,
        resume: Valuation | None = None,
        candidates: Mask | None = None,
    ) -> None:
        self.method, self.game, self.settings, self.seed = method, game, settings, seed
        self.candidates, self.cut = candidates, Cut.among(settings.k, game.n, candidates)
        self.resume = resume
        self.state: State = {} if resume is None else self._state_of(resume)
        self.meter = Meter(game, budget, progress, resume)
        self.limits = (math.nan, math.nan)  # V(M) and V(∅) on all data

    @property
    def halves(self) -> Halves:
        """The draws of the run that is continued."""
        return Halves.from_state(self.state["halves"]) if "halves" in self.state else Halves.none(self.game.n)

    def begin(self, cost: Number, what: str) -> None:
        """Look at V(M) and V(∅), unless the budget cannot pay for them and for the least answer there is."""
        n, known = self.game.n, self.resume
        self.meter.need(cost + (2 if known is None else 0), what)
        if known is not None:
            self.limits = known.v_all, known.v_none
        else:
            self.limits = self.game(torch.ones(n, dtype=torch.bool)), self.game(torch.zeros(n, dtype=torch.bool))

    def sample(
        self,
        phase: str,
        sample: AnySample,
        total: int,
        draw: Callable[[range, AnySample], Any],
        *,
        cost: Number | Callable[[AnySample], Number],
        at_once: int = 1,
        done: Callable[[AnySample], str] = never,
    ) -> AnySample:
        """The sample with draws up to ``total``, or to the first reason to end: ``done``, budget, interruption.

        ``draw(numbers, sample)`` gives the observations of those draws, functions of the seed and their numbers; only
        whom an adaptive estimator looks at may depend on the sample so far. ``cost`` is that of one draw; as many as
        can be paid are drawn together, up to ``at_once``. After a phase that ended early, the next does nothing.
        """
        if self.meter.stopped:
            return sample
        with self.meter.phase(phase):
            while not (reason := done(sample)) and sample.draws < total:
                price = cost(sample) if callable(cost) else cost
                self.meter.check(price)
                many = self.meter.how_often(price, at_once)
                coming = turns(sample.draws, many, at_once, total)
                made = self.game.drawn(lambda numbers, known=sample: draw(numbers, known), next(coming), coming)  # type: ignore[misc]
                sample = sample.extend(made)
                self.meter.report(sample.draws, total)
            self.meter.stopped = reason
        return sample

    def result(self, halves: Halves, reason: str = "all draws done", **state: Any) -> Valuation:
        """Means, errors and counts of the draws in ``halves``, and the ``reason`` it ended unless the loop has one.

        ``state`` is what else is needed to continue.
        """
        n = self.game.n
        blank = torch.full((n,), torch.nan, dtype=torch.float64)
        return Valuation(
            method=self.method,
            seed=self.seed,
            values=blank,
            stderr=blank,
            counts=torch.zeros(n, dtype=torch.int64),
            k=self.cut.k,
            v_all=self.limits[0],
            v_none=self.limits[1],
            evaluations=self.meter.evaluations,
            seconds=self.meter.seconds,
            stopped=self.meter.stopped or reason,
            names=labels(self.game, "names"),
            layers=labels(self.game, "layers"),
            state={"settings": self.settings.lasting(), "halves": halves.state(), **state},
            candidates=self.candidates,
        ).with_moments(halves)

    def _state_of(self, resume: Valuation) -> State:
        """The state to continue from; a result that this call does not continue is refused."""
        before = (resume.method, resume.seed, len(resume), (resume.state or {}).get("settings"))
        now = (self.method, self.seed, self.game.n, self.settings.lasting())
        for what, old, new in zip(("method", "seed", "number of players", "settings"), before, now, strict=True):
            require(old == new, f"resume= continues a run of equal {what}; it was {old!r} and is now {new!r}.")
        alike = [None if mask is None else mask.tolist() for mask in (resume.candidates, self.candidates)]
        require(alike[0] == alike[1], "resume= continues a run of equal candidates; these are others.")
        require(
            not resume.state.get("merged"), "A merged valuation cannot be continued; continue its parts and merge anew."
        )
        return resume.state


def turns(first: int, many: int, at_once: int, total: int) -> Iterator[range]:
    """The next ``many`` draws together, then those after them, ``at_once`` at a time."""
    end = min(first + many, total)
    yield range(first, end)
    for start in range(end, total, at_once):
        yield range(start, min(start + at_once, total))


def labels(game: Game, kind: str) -> tuple[str, ...] | None:
    """The ``names`` or ``layers`` of the players, if the game knows them; a game of three players need not."""
    known = getattr(game, kind, None)
    return None if known is None else tuple(known)

"""Monte Carlo Shapley values: mean marginal contributions over random orders (Eqs. 10 and 11), whole or truncated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Unpack

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from snv.seeding import generator
from snv.shapes import Indices, Mask
from snv.shapley.budget import Settings, require, rows_of_draw, share_of_data
from snv.shapley.game import Coalitions, Game, Payoffs
from snv.shapley.moments import Halves, Vector
from snv.shapley.result import Valuation
from snv.shapley.sampling import Call, Estimation

Payoff = Callable[[Coalitions], Payoffs]


@dataclass(frozen=True)
class MonteCarloSettings(Settings):
    permutations: int = 100
    antithetic: bool = (
        False  # each order with its reverse, one observation per pair: exact if interactions are pairwise
    )
    minibatch: int | None = None  # examples per observation; None: all. Small ones win at equal cost
    chunk: int = 256  # coalitions per call of the game

    may_change = frozenset({"permutations", "chunk"})

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.permutations >= 1, f"permutations is a number of orders, at least 1; got {self.permutations}.")
        require(
            not (self.antithetic and self.permutations % 2),
            f"antithetic orders come in pairs, so permutations is even; got {self.permutations}.",
        )
        require(
            self.minibatch is None or self.minibatch >= 1, f"minibatch is at least 1 or None; got {self.minibatch}."
        )
        require(self.chunk >= 1, f"chunk is a number of coalitions, at least 1; got {self.chunk}.")

    @property
    def observations(self) -> int:
        return self.permutations // 2 if self.antithetic else self.permutations

    def forecast(self, game: Game) -> float:
        return 2.0 + self.observations * self.cost(game)

    def cost(self, game: Game) -> float:
        """Evaluations of one observation; the ends of an order are known if it is evaluated on all data."""
        orders, share = (2 if self.antithetic else 1), share_of_data(game, self.minibatch)
        return float(orders * (game.n - 1)) if share == 1.0 else share * (orders * (game.n - 1) + 2)


def order_of_draw(n: int, seed: int, draw: int) -> Indices:
    """The random order of one draw, whatever was drawn before it."""
    return torch.randperm(n, generator=generator(seed, "draw", draw))


def prefixes(order: Indices, sizes: Indices) -> Coalitions:
    """For each size s the coalition of the first s players of the order."""
    return order.argsort()[None, :] < sizes[:, None]


def permutation_marginals(
    payoff: Payoff, orders: Int64[Tensor, "o n"], limits: tuple[float, float], chunk: int
) -> Float64[Tensor, "o n"]:
    """The marginal contribution of every player along each order, with V(M) and V(∅) given as ``limits``."""
    v_all, v_none = limits
    n_orders, n = orders.shape
    places, inner = orders.argsort(1), max(1, n - 1)
    heights = torch.empty(n_orders * (n - 1), dtype=torch.float64)
    for at in torch.split(torch.arange(len(heights)), chunk):
        heights[at] = payoff(places[at // inner] < (at % inner + 1)[:, None])
    first, last = (torch.full((n_orders, 1), v, dtype=torch.float64) for v in (v_none, v_all))
    steps = torch.cat([first, heights.reshape(n_orders, n - 1), last], 1).diff(dim=1)
    return torch.empty_like(steps).scatter_(1, orders, steps)


def payoff_of_draw(run: Estimation, minibatch: int | None, draw: int) -> tuple[Payoff, tuple[float, float]]:
    """V on the examples of one draw, and its V(M) and V(∅); the clock is looked at before every call."""
    rows = rows_of_draw(run.game, minibatch, run.seed, draw)
    payoff = partial(run.meter.values, rows=rows)
    if rows is None:
        return payoff, run.limits
    everyone = torch.ones(1, run.game.n, dtype=torch.bool)
    v_all, v_none = payoff(torch.cat([everyone, ~everyone])).tolist()
    return payoff, (v_all, v_none)


def montecarlo(game: Game, settings: MonteCarloSettings, **call: Unpack[Call]) -> Valuation:
    """φ̂_i = mean over whole random orders of V(before i ∪ i) − V(before i) (Eq. 10): unbiased, and Σφ̂ is exact.

    A continued run equals a longer one bit for bit if V(S) does not depend on the coalitions evaluated along with S;
    with ``chunk`` at most n an order never shares a call, and that holds for any game.
    """
    run = Estimation("montecarlo", game, settings, **call)
    cost, all_data = settings.cost(game), share_of_data(game, settings.minibatch) == 1.0
    run.begin(cost, "one permutation")

    def draw(numbers: range, _: Halves) -> Float64[Tensor, "m n"]:
        payoff, limits = payoff_of_draw(run, settings.minibatch, numbers[0])
        orders = torch.stack([order_of_draw(game.n, run.seed, number) for number in numbers])
        marginals = permutation_marginals(payoff, orders, limits, settings.chunk)
        if settings.antithetic:
            marginals = (marginals + permutation_marginals(payoff, orders.flip(1), limits, settings.chunk)) / 2
        return marginals

    at_once = max(1, settings.chunk // game.n) if all_data else 1
    return run.result(run.sample("permutations", run.halves, settings.observations, draw, cost=cost, at_once=at_once))


@dataclass(frozen=True)
class TruncatedSettings(Settings):
    permutations: int = 100
    floor: float = 0.05  # τ: an order ends when V is within τ·|V(M) − V(∅)| of V(∅)
    proceed: float = (
        0.1  # q: chance to go on nevertheless, with weight 1/q: unbiased. 0 counts the tail as zeros: biased
    )
    minibatch: int | None = None
    chunk: int = 32  # coalitions per call; small, because those after the floor are wasted

    may_change = frozenset({"permutations", "chunk"})

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.permutations >= 1, f"permutations is a number of orders, at least 1; got {self.permutations}.")
        self._check_floor()
        require(0 <= self.proceed <= 1, f"proceed is a probability; got {self.proceed}. Try 0.1.")
        require(
            self.minibatch is None or self.minibatch >= 1, f"minibatch is at least 1 or None; got {self.minibatch}."
        )
        require(self.chunk >= 1, f"chunk is a number of coalitions, at least 1; got {self.chunk}.")

    def forecast(self, game: Game) -> float:
        return 2.0 + self.permutations * self.most(game)

    def _check_floor(self) -> None:
        require(0 <= self.floor < 1, f"floor is a share of V(all) − V(none), in [0, 1); got {self.floor}. Try 0.05.")

    def most(self, game: Game) -> float:
        """Evaluations of one order that is not cut short."""
        share = share_of_data(game, self.minibatch)
        return game.n - 1.0 if share == 1.0 else share * (game.n + 1)


@dataclass(frozen=True)
class Truncation:
    """When to end an order early, and what to do then."""

    floor: float
    proceed: float
    chunk: int


def removal_marginals(
    payoff: Payoff,
    order: Indices,
    wanted: Mask,
    limits: tuple[float, float],
    truncation: Truncation,
    rng: torch.Generator,
) -> Vector:
    """Marginals of the ``wanted`` players as ``order`` removes one after the other from M; not-a-number for others.

    Once V(S) is within τ·|V(M) − V(∅)| of V(∅) the rest counts as 0, or, with probability q, as 1/q times what it is.
    """
    v_all, v_none = limits
    n, near = len(order), truncation.floor * abs(v_all - v_none)
    heights = torch.full((n + 1,), torch.nan, dtype=torch.float64)  # V with s players removed
    heights[0], heights[n] = v_all, v_none
    removed = wanted[order].nonzero()[:, 0]
    looked_at = torch.zeros(n + 1, dtype=torch.bool)
    looked_at[removed] = looked_at[removed + 1] = True
    looked_at[0] = looked_at[n] = False  # V(M) and V(∅) are known
    weight = torch.ones(n, dtype=torch.float64)
    may_stop = truncation.floor > 0
    for steps in torch.split(looked_at.nonzero()[:, 0], truncation.chunk):
        heights[steps] = payoff(~prefixes(order, steps))
        low = steps[(heights[steps] - v_none).abs() <= near]
        if may_stop and len(low):
            may_stop, tail = False, int(low[0])
            proceeds = bool(torch.rand((), generator=rng) < truncation.proceed)
            weight[tail:] = 1 / truncation.proceed if proceeds else 0.0
            if not proceeds:
                break
    drop = heights[:-1] - heights[1:]
    marginals = torch.full((n,), torch.nan, dtype=torch.float64)
    marginals[order[removed]] = torch.where(weight > 0, drop * weight, 0.0)[removed]
    return marginals


def truncated(game: Game, settings: TruncatedSettings, **call: Unpack[Call]) -> Valuation:
    """Monte Carlo over removal orders that end where nothing is left to lose.

    Note: the paper grows coalitions and skips marginals while V(S) ≤ τ. V(S) must be computed to know that, so it
    saves nothing, and it averages over large coalitions only; removal (Ghorbani and Zou, 2020) saves, and the
    roulette of ``proceed`` keeps it unbiased.
    """
    run = Estimation("truncated", game, settings, **call)
    most, everyone = settings.most(game), torch.ones(game.n, dtype=torch.bool)
    run.begin(most, "one permutation")

    def draw(numbers: range, _: Halves) -> Float64[Tensor, "1 n"]:
        return truncated_draw(run, settings, everyone, numbers[0])

    # an order that is begun is paid as a whole and finished: dropping the long ones would be a bias
    return run.result(run.sample("permutations", run.halves, settings.permutations, draw, cost=most))


def truncated_draw(run: Estimation, settings: TruncatedSettings, wanted: Mask, draw: int) -> Float64[Tensor, "1 n"]:
    """The marginals of the ``wanted`` players along the removal order of one draw."""
    payoff, limits = payoff_of_draw(run, settings.minibatch, draw)
    truncation = Truncation(settings.floor, settings.proceed, settings.chunk)
    order, rng = order_of_draw(run.game.n, run.seed, draw), generator(run.seed, "roulette", draw)
    return removal_marginals(payoff, order, wanted, limits, truncation, rng)[None]

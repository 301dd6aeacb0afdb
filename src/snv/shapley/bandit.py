"""EstimateSNV of Algorithm 1: sample only the neurons whose place in the top-k is undecided (TMAB)."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, Unpack

import torch
from jaxtyping import Float64
from torch import Tensor

from snv.shapes import Mask
from snv.shapley.agreement import Cut, top_k
from snv.shapley.budget import require
from snv.shapley.game import Game
from snv.shapley.intervals import BernsteinSequence, asymptotic_radius, floored_variance, z_radius
from snv.shapley.moments import Halves, Moments, Vector
from snv.shapley.permutation import Payoff, TruncatedSettings, order_of_draw, payoff_of_draw, prefixes, truncated_draw
from snv.shapley.result import HORIZON, Valuation
from snv.shapley.sampling import Call, Estimation


@dataclass(frozen=True)
class TMABSettings(TruncatedSettings):
    permutations: int = 1000  # the cap; reaching it is no convergence, and the result says so
    confidence: float = 0.95  # 1 − δ, for all players and all looks together
    eps: float = 0.5  # ε of the ε-top-k, in standard deviations of the values
    burn_in: int = 30  # permutations that sample everyone, before the first look
    pseudo: float = 5.0  # weight of the pooled variance in the variance floor
    radii: Literal["asymptotic", "bernstein"] = "asymptotic"
    marginal_range: float | None = None  # bernstein only: no marginal exceeds this in size
    preset: Literal["repaired", "paper"] = "repaired"  # paper: the printed rules, for reproduction

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 < self.confidence < 1, f"confidence lies in (0, 1); got {self.confidence}. Try 0.95.")
        require(self.eps > 0, f"eps is positive, because gaps at the cut are often 0; got {self.eps}. Try 0.5.")
        require(self.burn_in >= 2, f"burn_in is at least 2 (a variance needs two); got {self.burn_in}. Try 30.")
        require(self.radii in ("asymptotic", "bernstein"), f"radii is asymptotic or bernstein; got {self.radii!r}.")
        require(self.preset in ("repaired", "paper"), f"preset is repaired or paper; got {self.preset!r}.")
        require(
            self.radii == "asymptotic" or self.marginal_range is not None,
            "bernstein radii hold for bounded marginals; say marginal_range, e.g. 1.0 for accuracy.",
        )

    def _check_floor(self) -> None:
        if self.preset == "repaired":  # the paper's τ is V itself, whatever the payoff's scale
            super()._check_floor()

    def forecast(self, game: Game) -> float:
        return super().forecast(game) if self.preset == "repaired" else 2.0 + self.permutations * (game.n + 1.0)


@dataclass(frozen=True)
class Contest:
    """Where the top-k stands: ``gap`` = U − L, and the players that keep it from being smaller than ε."""

    gap: float
    contested: Mask


def contest(chosen: Mask, values: Vector, radius: Vector, eps: float) -> Contest:
    """LUCB: L = min over the chosen of φ̂ − r, U = max over the rejected of φ̂ + r; U − L ≤ ε is an ε-top-k.

    Contested are the chosen with φ̂ − r < U − ε and the rejected with φ̂ + r > L + ε.
    """
    if chosen.all():
        return Contest(-math.inf, ~chosen)
    low, high = values - radius, values + radius
    weakest, strongest = low[chosen].min(), high[~chosen].max()
    contested = torch.where(chosen, low < strongest - eps, high > weakest + eps)
    return Contest(float(strongest - weakest), contested)


@dataclass(frozen=True)
class Arms:
    """What the bandit knows of every player, and whom it samples next."""

    settings: TMABSettings
    cut: Cut
    halves: Halves
    bernstein: BernsteinSequence | None = None  # if such radii are asked for

    @staticmethod
    def of(run: Estimation, settings: TMABSettings) -> Arms:
        """At the start, or where the run that is continued left them."""
        if settings.radii == "asymptotic":
            return Arms(settings, run.cut, run.halves)
        blank = BernsteinSequence.none(run.game.n, (1 - settings.confidence) / run.game.n)
        known = run.state.get("bernstein")
        return Arms(settings, run.cut, run.halves, blank if known is None else BernsteinSequence.from_state(known))

    @property
    def draws(self) -> int:
        return self.halves.draws

    def extend(self, marginals: Float64[Tensor, "1 n"]) -> Arms:
        """One more permutation; players it did not evaluate are not-a-number."""
        players = (~marginals[0].isnan()).nonzero()[:, 0]
        x = marginals[0, players]
        bernstein = self.bernstein
        if bernstein is not None:
            bernstein = bernstein.add(((x / self._widest + 1) / 2).clamp(0, 1), players)
        return replace(self, halves=self.halves.add(x, players), bernstein=bernstein)

    @property
    def _widest(self) -> float:
        """The largest observation: a marginal, times 1/q if the roulette may multiply it."""
        scale = 1 / self.settings.proceed if self.settings.floor > 0 and self.settings.proceed > 0 else 1.0
        return (self.settings.marginal_range or 1.0) * scale

    def estimate(self) -> tuple[Vector, Vector]:
        """φ̂ and radii that hold for all players and at all times with probability ``confidence``."""
        if self.bernstein is not None:
            return (2 * self.bernstein.centre - 1) * self._widest, 2 * self._widest * self.bernstein.radius
        moments = self.halves.all
        variance = floored_variance(moments, self.settings.pseudo)
        alpha = (1 - self.settings.confidence) / len(moments.count)  # union bound
        return moments.mean, asymptotic_radius(variance, moments.count, alpha, HORIZON)

    @cached_property
    def contest(self) -> Contest:
        """How the contest stands among those who compete; nobody else is contested."""
        values, radius = self.estimate()
        among, chosen = self.cut.players, self.cut.chosen(values)
        eps = self.settings.eps * self.cut.spread(values)
        now = contest(chosen[among], values[among], radius[among], eps)
        contested = torch.zeros_like(chosen)
        contested[among] = now.contested
        return Contest(now.gap, contested)

    @cached_property
    def wanted(self) -> Mask:
        """Whom the next permutation samples: everyone in the burn-in, then those whose place is undecided."""
        if self.draws < self.settings.burn_in:
            return torch.ones(len(self.halves.even.count), dtype=torch.bool)
        if self.settings.preset == "paper":
            return undecided(self.halves.all, self.cut.k, self.settings.confidence)
        return self.contest.contested


def tmab(game: Game, settings: TMABSettings, **call: Unpack[Call]) -> Valuation:
    """Algorithm 1 repaired: removal orders, a burn-in, then only contested neurons, until an ε-top-k is certain.

    The top-k is that of the ``candidates`` (default: everyone); all others are in the game and sampled in the burn-in.
    Note: a neuron that is no longer sampled stays in the game; radii hold at all looks and for all neurons together;
    the values of neurons that were dropped early carry the luck that dropped them, so they rank but are not unbiased.
    """
    if settings.preset == "paper":
        warnings.warn(
            "preset='paper' runs Algorithm 1 as printed: it does not stop by itself, skipping saves nothing, and its "
            "values are means over large coalitions only. Use preset='repaired' for anything but reproduction.",
            stacklevel=3,
        )
        return as_printed(game, settings, **call)
    run, most = Estimation("tmab", game, settings, **call), settings.most(game)
    run.begin(most, "one permutation")
    arms = run.sample(
        "permutations",
        Arms.of(run, settings),
        settings.permutations,
        lambda numbers, arms: truncated_draw(run, settings, arms.wanted, numbers[0]),
        cost=lambda arms: min(most, 2.0 * int(arms.wanted.sum())),
        done=lambda arms: "" if arms.wanted.any() else "certified",
    )
    state = {} if arms.bernstein is None else {"bernstein": arms.bernstein.state()}
    result = run.result(arms.halves, f"cap of {settings.permutations} permutations reached", **state)
    return _certified(result, arms, settings)


def _certified(result: Valuation, arms: Arms, settings: TMABSettings) -> Valuation:
    """The result with what may be said about its top-k, and on what grounds."""
    looked = arms.draws >= settings.burn_in
    gap = max(0.0, arms.contest.gap) if looked else math.inf
    whole = settings.floor == 0 or settings.proceed > 0
    certified = result.stopped == "certified" and whole
    grounds = {
        "asymptotic": "time-uniform large-sample radii",
        "bernstein": f"empirical-Bernstein radii for marginals within ±{settings.marginal_range}",
    }[settings.radii]
    among = "" if result.candidates is None else f"of the {len(arms.cut.players)} players that compete, "
    claim = (
        f"{among}with probability {settings.confidence:g} no chosen player is worth less than a rejected one by more "
        f"than {gap:.3g} ({grounds}, union over {len(result)} players)"
    )
    sentence = f"Certified: {claim}." if certified else f"Not certified at the ε asked for ({result.stopped}); {claim}."
    if not whole:
        sentence = f"Not certified: tails counted as 0 are a bias that no radius covers; up to it, {claim}."
    return replace(
        result,
        values=result.values if arms.bernstein is None else arms.estimate()[0],
        adaptive=True,
        certified=certified,
        eps=gap,
        certificate=sentence,
        contested=arms.contest.contested.nonzero()[:, 0] if looked else result.contested,
    )


def growing_marginals(payoff: Payoff, order: Tensor, active: Mask, floor: float, chunk: int) -> Vector:
    """Lines 5 to 10 of Algorithm 1: grow S along the order, skip while V(S) ≤ τ; not-a-number where skipped."""
    sizes = torch.arange(len(order) + 1)
    heights = torch.cat([payoff(prefixes(order, part)) for part in torch.split(sizes, chunk)])
    counted = (heights[:-1] > floor) & active[order]
    marginals = torch.full((len(order),), torch.nan, dtype=torch.float64)
    marginals[order] = torch.where(counted, heights.diff(), torch.nan)
    return marginals


def undecided(moments: Moments, k: int, confidence: float) -> Mask:
    """The paper's active set {i : |φ̂_i − φ^(k)| < δ_i}, δ_i = z σ̂_i/√n_i; players without a value are in it too."""
    unknown = moments.count == 0
    if int((~unknown).sum()) < k:
        return torch.ones_like(unknown)
    values = moments.observed_mean
    cut = values[top_k(values, k)[-1]]
    return unknown | ((values - cut).abs() < z_radius(moments, confidence))


def as_printed(game: Game, settings: TMABSettings, **call: Unpack[Call]) -> Valuation:
    """EstimateSNV of Algorithm 1 with its own rules: growing coalitions, skipping at τ, pointwise intervals at α.

    Note: printed, it looks at σ̂ after one permutation, where it is 0, and would stop; here everyone is sampled for
    ``burn_in`` permutations first. Printed, it has no cap, and the k-th neuron keeps it running; here it has one.
    """
    run = Estimation("tmab", game, settings, **call)
    require(run.candidates is None, "Algorithm 1 as printed chooses among all players; leave candidates out.")
    run.begin(game.n + 1.0, "one permutation")
    _require_above_floor(run.limits, settings.floor)

    def draw(numbers: range, arms: Arms) -> Float64[Tensor, "1 n"]:
        payoff, _ = payoff_of_draw(run, None, numbers[0])
        order = order_of_draw(game.n, run.seed, numbers[0])
        return growing_marginals(payoff, order, arms.wanted, settings.floor, settings.chunk)[None]

    halves = run.sample(
        "permutations",
        Arms(settings, run.cut, run.halves),
        settings.permutations,
        draw,
        cost=game.n + 1.0,
        done=lambda arms: "" if arms.wanted.any() else "active set empty",
    ).halves
    require(
        halves.draws == 0 or bool(halves.all.count.any()),
        f"Algorithm 1 as printed skipped every marginal of {halves.draws} permutations: V(S) was never above floor = "
        f"{settings.floor:g} (τ) before the last players joined. Choose a smaller floor, or preset='repaired'.",
    )
    result = run.result(halves, f"cap of {settings.permutations} permutations reached")
    sentence = "Not certified: pointwise normal intervals, looked at repeatedly for every player, are no certificate."
    contested = undecided(halves.all, run.cut.k, settings.confidence).nonzero()[:, 0]
    return replace(result, adaptive=True, certificate=sentence, contested=contested)


def _require_above_floor(limits: tuple[float, float], floor: float) -> None:
    """Refuse a payoff of which every marginal would be skipped."""
    v_all, v_none = limits
    require(
        v_all > floor,
        f"Algorithm 1 as printed skips a marginal while V(S) is at most floor (τ), and V(all) = {v_all:.3g} is not "
        f"above floor = {floor:g}, so nobody would get a value. Use a payoff such as accuracy, or a floor below "
        f"V(none) = {v_none:.3g}.",
    )

"""EstimateSNV of Algorithm 1: sample only the neurons whose place in the top-k is undecided (TMAB)."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float64
from torch import Tensor

from snv.files import State
from snv.shapes import Mask
from snv.shapley.agreement import Cut, how_many, top_k
from snv.shapley.budget import UNLIMITED, Budget, Meter, Progress, ends, halves_of, require, state_of, summary
from snv.shapley.game import Game
from snv.shapley.intervals import BernsteinSequence, asymptotic_radius, floored_variance, z_radius
from snv.shapley.moments import Halves, Moments, Vector
from snv.shapley.permutation import Payoff, TruncatedSettings, order_of_draw, payoff_of_draw, prefixes, truncated_draw
from snv.shapley.result import HORIZON, Valuation


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
class Sampling:
    """What the bandit knows: the moments of each neuron and, if asked for, its Bernstein sequence."""

    halves: Halves
    bernstein: BernsteinSequence | None

    @staticmethod
    def begin(state: State, settings: TMABSettings, n: int) -> Sampling:
        if settings.radii == "asymptotic":
            return Sampling(halves_of(state, n), None)
        fresh = BernsteinSequence.none(n, (1 - settings.confidence) / n)
        found = state.get("bernstein")
        return Sampling(halves_of(state, n), fresh if found is None else BernsteinSequence.from_state(found))

    def add(self, marginals: Float64[Tensor, " n"], settings: TMABSettings) -> Sampling:
        """One more permutation; players it did not evaluate are not-a-number."""
        players = (~marginals.isnan()).nonzero()[:, 0]
        x = marginals[players]
        bernstein = self.bernstein
        if bernstein is not None:
            widest = _widest(settings)
            bernstein = bernstein.add(((x / widest + 1) / 2).clamp(0, 1), players)
        return Sampling(self.halves.add(x, players), bernstein)

    def estimate(self, settings: TMABSettings) -> tuple[Vector, Vector]:
        """φ̂ and radii that hold for all players and at all times with probability ``confidence``."""
        if self.bernstein is not None:
            widest = _widest(settings)
            return (2 * self.bernstein.centre - 1) * widest, 2 * widest * self.bernstein.radius
        moments = self.halves.all
        alpha = (1 - settings.confidence) / len(moments.count)  # union bound
        return moments.mean, asymptotic_radius(
            floored_variance(moments, settings.pseudo), moments.count, alpha, HORIZON
        )

    def contest(self, settings: TMABSettings, cut: Cut) -> Contest:
        """How the contest stands among those who compete; nobody else is contested."""
        values, radius = self.estimate(settings)
        among, chosen = cut.players, cut.chosen(values)
        now = contest(chosen[among], values[among], radius[among], settings.eps * cut.spread(values))
        contested = torch.zeros_like(chosen)
        contested[among] = now.contested
        return Contest(now.gap, contested)


def _widest(settings: TMABSettings) -> float:
    """The largest observation: a marginal, times 1/q if the roulette may multiply it."""
    scale = 1 / settings.proceed if settings.floor > 0 and settings.proceed > 0 else 1.0
    return (settings.marginal_range or 1.0) * scale


def tmab(
    game: Game,
    settings: TMABSettings,
    *,
    seed: int = 0,
    budget: Budget = UNLIMITED,
    progress: Progress | None = None,
    resume: Valuation | None = None,
    candidates: Mask | None = None,
) -> Valuation:
    """Algorithm 1 repaired: removal orders, a burn-in, then only contested neurons, until an ε-top-k is certain.

    The top-k is that of the ``candidates`` (default: everyone); all others are in the game and sampled in the burn-in.
    Note: a neuron that is no longer sampled stays in the game; radii hold at all looks and for all neurons together;
    the values of neurons that were dropped early carry the luck that dropped them, so they rank but are not unbiased.
    """
    if settings.preset == "paper":
        require(candidates is None, "Algorithm 1 as printed chooses among all players; leave candidates out.")
        warnings.warn(
            "preset='paper' runs Algorithm 1 as printed: it does not stop by itself, skipping saves nothing, and its "
            "values are means over large coalitions only. Use preset='repaired' for anything but reproduction.",
            stacklevel=3,
        )
        return as_printed(game, settings, seed=seed, budget=budget, progress=progress, resume=resume)
    state = state_of(resume, "tmab", seed, settings, game, candidates)
    cut = Cut.among(settings.k, game.n, candidates)
    meter = Meter(game, budget, progress, resume)
    meter.need(settings.most(game) + 2 * (resume is None), "one permutation")
    limits = ends(game, resume)
    sampling = Sampling.begin(state, settings, game.n)
    done = False
    with meter.phase("permutations"):
        while sampling.halves.draws < settings.permutations:
            wanted = torch.ones(game.n, dtype=torch.bool)
            if sampling.halves.draws >= settings.burn_in:
                wanted = sampling.contest(settings, cut).contested
                done = not wanted.any()
                if done:
                    break
            meter.check(min(settings.most(game), 2.0 * int(wanted.sum())))
            marginals = truncated_draw(meter, settings, limits, wanted, seed, sampling.halves.draws)
            sampling = sampling.add(marginals, settings)
            meter.report(sampling.halves.draws, settings.permutations)
    if not meter.stopped:
        meter.stopped = "certified" if done else f"cap of {settings.permutations} permutations reached"
    if sampling.bernstein is not None:
        state = {**state, "bernstein": sampling.bernstein.state()}
    result = summary("tmab", seed, settings, meter, limits, sampling.halves, state)
    return _certified(replace(result, k=cut.k, candidates=candidates), sampling, settings, cut)


def _certified(result: Valuation, sampling: Sampling, settings: TMABSettings, cut: Cut) -> Valuation:
    """The result with what may be said about its top-k, and on what grounds."""
    state = sampling.contest(settings, cut) if sampling.halves.draws >= settings.burn_in else None
    gap = math.inf if state is None else max(0.0, state.gap)
    whole = settings.floor == 0 or settings.proceed > 0
    certified = result.stopped == "certified" and whole
    grounds = {
        "asymptotic": "time-uniform large-sample radii",
        "bernstein": f"empirical-Bernstein radii for marginals within ±{settings.marginal_range}",
    }[settings.radii]
    among = "" if result.candidates is None else f"of the {len(cut.players)} players that compete, "
    claim = (
        f"{among}with probability {settings.confidence:g} no chosen player is worth less than a rejected one by more "
        f"than {gap:.3g} ({grounds}, union over {len(result)} players)"
    )
    sentence = f"Certified: {claim}." if certified else f"Not certified at the ε asked for ({result.stopped}); {claim}."
    if not whole:
        sentence = f"Not certified: tails counted as 0 are a bias that no radius covers; up to it, {claim}."
    contested = result.contested if state is None else state.contested.nonzero()[:, 0]
    values = sampling.estimate(settings)[0] if sampling.bernstein is not None else result.values
    return replace(
        result,
        values=values,
        adaptive=True,
        certified=certified,
        eps=gap,
        certificate=sentence,
        contested=contested,
    )


def growing_marginals(payoff: Payoff, order: Tensor, active: Mask, floor: float, chunk: int) -> Vector:
    """Lines 5 to 10 of Algorithm 1: grow S along the order, skip while V(S) ≤ τ; not-a-number where skipped."""
    sizes = torch.arange(len(order) + 1)
    heights = torch.cat([payoff(prefixes(order, part)) for part in torch.split(sizes, chunk)])
    kept = (heights[:-1] > floor) & active[order]
    marginals = torch.full((len(order),), torch.nan, dtype=torch.float64)
    marginals[order] = torch.where(kept, heights.diff(), torch.nan)
    return marginals


def undecided(moments: Moments, k: int, confidence: float) -> Mask:
    """The paper's active set {i : |φ̂_i − φ^(k)| < δ_i}, δ_i = z σ̂_i/√n_i; players without a value are in it too."""
    unknown = moments.count == 0
    if int((~unknown).sum()) < k:
        return torch.ones_like(unknown)
    values = moments.observed_mean
    cut = values[top_k(values, k)[-1]]
    return unknown | ((values - cut).abs() < z_radius(moments, confidence))


def as_printed(
    game: Game,
    settings: TMABSettings,
    *,
    seed: int = 0,
    budget: Budget = UNLIMITED,
    progress: Progress | None = None,
    resume: Valuation | None = None,
) -> Valuation:
    """EstimateSNV of Algorithm 1 with its own rules: growing coalitions, skipping at τ, pointwise intervals at α.

    Note: printed, it looks at σ̂ after one permutation, where it is 0, and would stop; here everyone is sampled for
    ``burn_in`` permutations first. Printed, it has no cap, and the k-th neuron keeps it running; here it has one.
    """
    k, state = how_many(settings.k, game.n), state_of(resume, "tmab", seed, settings, game)
    halves, meter = halves_of(state, game.n), Meter(game, budget, progress, resume)
    meter.need(game.n + 1.0 + 2 * (resume is None), "one permutation")
    limits = ends(game, resume)
    _require_above_floor(limits, settings.floor)
    empty = False
    with meter.phase("permutations"):
        while halves.draws < settings.permutations:
            active = torch.ones(game.n, dtype=torch.bool)
            if halves.draws >= settings.burn_in:
                active = undecided(halves.all, k, settings.confidence)
            empty = not active.any()
            if empty:
                break
            meter.check(game.n + 1.0)
            payoff, _ = payoff_of_draw(meter, limits, None, seed, halves.draws)
            order = order_of_draw(game.n, seed, halves.draws)
            marginals = growing_marginals(payoff, order, active, settings.floor, settings.chunk)
            players = (~marginals.isnan()).nonzero()[:, 0]
            halves = halves.add(marginals[players], players)
            meter.report(halves.draws, settings.permutations)
    if not meter.stopped:
        meter.stopped = "active set empty" if empty else f"cap of {settings.permutations} permutations reached"
    require(
        halves.draws == 0 or bool(halves.all.count.any()),
        f"Algorithm 1 as printed skipped every marginal of {halves.draws} permutations: V(S) was never above floor = "
        f"{settings.floor:g} (τ) before the last players joined. Choose a smaller floor, or preset='repaired'.",
    )
    result = summary("tmab", seed, settings, meter, limits, halves, state)
    sentence = "Not certified: pointwise normal intervals, looked at repeatedly for every player, are no certificate."
    contested = undecided(halves.all, k, settings.confidence).nonzero()[:, 0]
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

"""Gradients for everyone, exact flips at shared coalitions for the players near the cut: unbiased where it matters."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Unpack

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from snv.files import State
from snv.seeding import derived_seed, generator
from snv.shapes import Indices, Mask
from snv.shapley.agreement import Cut, ranking
from snv.shapley.bandit import contest
from snv.shapley.budget import Settings, require, rows_of_draw, share_of_data
from snv.shapley.game import Game
from snv.shapley.gradient import GRADIENT_COST, GradientSettings, Masks, gradient_draws, need_gradient
from snv.shapley.intervals import asymptotic_radius, floored_variance
from snv.shapley.moments import Halves, Moments, Vector
from snv.shapley.result import HORIZON, Valuation, midpoint
from snv.shapley.sampling import Call, Estimation, labels, never

ENOUGH = 8  # pilot players from which a layer gets a calibration of its own
MOST_GRADIENTS = 32  # gradient-only coalitions per flipped one, at most
PSEUDO = 5.0  # weight of the pooled variance in the variance floor


@dataclass(frozen=True)
class HybridSettings(Settings):
    draws: int = 64  # gradients of the first stage
    masks: Masks = "beta"
    concentration: float = 1.0
    minibatch: int | None = 64  # examples per coalition; None: all
    pilot_players: int = 64  # flipped in the pilot, to calibrate the gradient
    pilot_coalitions: int = 32
    width: float = 2.0  # the band reaches this many τ (errors of the calibrated gradient) from the cut
    max_band: int = 256  # players flipped at most, the nearest to the cut first
    strata: int = 2  # coalitions per round, one of each range of sizes; a round is one observation
    burn_in: int = 24  # rounds before the first look
    rounds: int = 100  # the cap; reaching it is no convergence, and the result says so
    fresh: int = 24  # rounds after the last look, for the unbiased values
    confidence: float = 0.95  # 1 − δ
    eps: float | None = (
        None  # stop at an ε-top-k of the band, ε in standard deviations of the values; None: `misplaced`
    )
    misplaced: float = 0.05  # stop when this share of the k places is expected to be wrong
    chunk: int = 8  # gates per call of the gradient-only coalitions

    may_change = frozenset({"rounds", "eps", "misplaced", "chunk"})

    def __post_init__(self) -> None:
        super().__post_init__()
        self.gradient  # noqa: B018 - checks its own settings
        at_least = {
            "chunk": 1,
            "pilot_players": 1,
            "pilot_coalitions": 4,
            "max_band": 2,
            "strata": 1,
            "burn_in": 2,
            "fresh": 2,
        }
        for name, least in at_least.items():
            require(getattr(self, name) >= least, f"{name} is at least {least}; got {getattr(self, name)}.")
        require(
            self.rounds >= self.burn_in, f"rounds is the cap, so at least burn_in = {self.burn_in}; got {self.rounds}."
        )
        require(self.width > 0, f"width is a positive number of τ; got {self.width}. Try 2.")
        require(0 < self.confidence < 1, f"confidence lies in (0, 1); got {self.confidence}. Try 0.95.")
        require(self.eps is None or self.eps > 0, f"eps is positive or None; got {self.eps}. Try 0.5.")
        require(0 < self.misplaced < 1, f"misplaced is a share of k, in (0, 1); got {self.misplaced}. Try 0.05.")

    @property
    def gradient(self) -> GradientSettings:
        """The first stage."""
        return GradientSettings(self.k, self.draws, self.masks, self.concentration, self.minibatch)

    def forecast(self, game: Game) -> float:
        """With flips at their plain price of two V(S) each; networks reuse prefixes and pay less."""
        share = share_of_data(game, self.minibatch)
        pilot = self.pilot_coalitions * (2 * min(self.pilot_players, game.n) + 3 * GRADIENT_COST)
        band = 2 * min(self.max_band, game.n) + (1 + MOST_GRADIENTS) * GRADIENT_COST
        return self.gradient.forecast(game) + share * (pilot + (self.rounds + self.fresh) * self.strata * band)


@dataclass(frozen=True)
class Pilot:
    """Exact flips Δ and gradients g of the pilot players at shared coalitions, and what they cost."""

    players: Indices
    flips: Float64[Tensor, "m p"]
    slopes: Float64[Tensor, "m p"]  # at the same coalitions and examples
    elsewhere: Float64[Tensor, "e p"]  # g at further coalitions
    spent: float = 0.0  # evaluations of the flips

    @property
    def draws(self) -> int:
        return len(self.flips)

    @property
    def cost(self) -> float:
        """Evaluations per flipped player and coalition."""
        return self.spent / self.flips.numel()

    def extend(self, other: Pilot) -> Pilot:
        flips, slopes = torch.cat([self.flips, other.flips]), torch.cat([self.slopes, other.slopes])
        elsewhere = torch.cat([self.elsewhere, other.elsewhere])
        return Pilot(self.players, flips, slopes, elsewhere, self.spent + other.spent)


@dataclass(frozen=True)
class Surrogate:
    """The calibrated gradient: p_i = α + γ ĝ_i with error τ_i, and how far g predicts Δ coalition by coalition."""

    prior: Vector  # p
    tau2: Vector
    slope: Vector  # β for infinitely many gradients
    rho2: float  # ρ² of Δ and g
    cost: float


def coalitions_by_size(n: int, strata: int, rng: torch.Generator) -> Bool[Tensor, "s n"]:
    """One coalition per stratum; |S| of all strata together is uniform on 0..n, so flips there are unbiased.

    Why: docs/valuation.md, "Shared coalitions".
    """
    levels = (torch.arange(strata) + torch.rand(strata, generator=rng, dtype=torch.float64)) / strata
    sizes = (levels * (n + 1)).long()
    places = torch.rand(strata, n, generator=rng, dtype=torch.float64).argsort(1).argsort(1)
    return places < sizes[:, None]


def slopes_at(game: Game, coalitions: Bool[Tensor, "s n"], rows: Indices | None) -> Float64[Tensor, "s n"]:
    """∂v/∂m at m = 1_S."""
    return game.gradient(coalitions.double(), rows)[0].double().cpu()


def observe(
    game: Game, players: Indices, beta: Vector, ratio: int, settings: HybridSettings, seed: int, number: int
) -> Float64[Tensor, " c"]:
    """X_i = mean_S[Δ_i(S) − β g_i(S)] + β mean_S' g_i(S'), S' further coalitions: E X_i = φ_i for any fixed β.

    Why, and which β: docs/valuation.md, "The gradient as control variate".
    """
    rng = generator(seed, "coalitions", number)
    total = torch.zeros(len(players), dtype=torch.float64)
    for part, coalition in enumerate(coalitions_by_size(game.n, settings.strata, rng)):
        rows = rows_of_draw(game, settings.minibatch, seed, number * (settings.strata + 1) + part)
        total += game.flips(coalition, players, rows)
        if ratio:
            total -= beta[players] * slopes_at(game, coalition[None], rows)[0, players]
    total /= settings.strata
    if ratio:
        rows = rows_of_draw(game, settings.minibatch, seed, number * (settings.strata + 1) + settings.strata)
        further = torch.split(coalitions_by_size(game.n, settings.strata * ratio, rng), settings.chunk)
        slopes = torch.cat([slopes_at(game, part, rows)[:, players] for part in further])
        total += beta[players] * slopes.mean(0)
    return total


def run_pilot(run: Estimation, settings: HybridSettings) -> Pilot:
    """Flip a random few players at a few coalitions, with the gradient beside them."""
    game, m, own = run.game, settings.pilot_coalitions, derived_seed(run.seed, "pilot")
    rng = generator(own, "coalitions")
    players = torch.randperm(game.n, generator=rng)[: settings.pilot_players].sort().values
    at_both, at_slopes = coalitions_by_size(game.n, m, rng), coalitions_by_size(game.n, 2 * m, rng)

    def draw(numbers: range, _: Pilot) -> Pilot:
        j, before = numbers[0], game.evaluations
        rows, further = (rows_of_draw(game, settings.minibatch, own, number) for number in (j, m + j))
        flips = game.flips(at_both[j], players, rows)[None]
        spent = game.evaluations - before
        slopes = slopes_at(game, at_both[j : j + 1], rows)[:, players]
        return Pilot(players, flips, slopes, slopes_at(game, at_slopes[2 * j : 2 * j + 2], further)[:, players], spent)

    nothing = torch.zeros(0, len(players), dtype=torch.float64)
    cost = (2 * len(players) + 3 * GRADIENT_COST) * share_of_data(game, settings.minibatch)
    return run.sample("pilot", Pilot(players, nothing, nothing, nothing), m, draw, cost=cost)


def regression(flips: Float64[Tensor, "m p"], slopes: Float64[Tensor, "m p"]) -> tuple[float, float]:
    """β = Σ ΔgΣ⁻¹ and ρ² of Δ on g, pooled over players, each about its own mean."""
    d, g = flips - flips.mean(0), slopes - slopes.mean(0)
    both, of_d, of_g = float((d * g).sum()), float((d * d).sum()), float((g * g).sum())
    if min(of_d, of_g) <= 1e-24:  # nothing varies, so there is nothing to explain
        return 0.0, 0.0
    return both / of_g, min(both**2 / (of_d * of_g), 1 - 1e-9)


def calibrate(pilot: Pilot, estimate: Vector, layers: tuple[str, ...] | None) -> Surrogate:
    """p_i = α + γ ĝ_i, τ² and β from the pilot, layer by layer where it has enough players in the layer."""
    n = len(estimate)
    prior, tau2, slope = (torch.zeros(n, dtype=torch.float64) for _ in range(3))
    groups = ["all"] * n if layers is None else list(layers)
    for group in sorted(set(groups)):
        members = torch.tensor([g == group for g in groups])
        used = members[pilot.players]
        if int(used.sum()) < ENOUGH:
            used = torch.ones(len(pilot.players), dtype=torch.bool)
        alpha, gamma, error, beta = _fit(pilot, used, estimate[pilot.players])
        prior[members], tau2[members], slope[members] = alpha + gamma * estimate[members], error, beta
    return Surrogate(prior, tau2, slope, regression(pilot.flips, pilot.slopes)[1], pilot.cost)


def _fit(pilot: Pilot, used: Mask, estimate: Vector) -> tuple[float, float, float, float]:
    """α, γ, τ² and β of the pilot players in ``used``: τ² = mean (φ̂ − p)² − mean s²."""
    flips, slopes, elsewhere = pilot.flips[:, used], pilot.slopes[:, used], pilot.elsewhere[:, used]
    slope, _ = regression(flips, slopes)
    beta = slope * len(elsewhere) / (len(elsewhere) + len(flips))
    residual, control = Moments.of(flips - beta * slopes), Moments.of(elsewhere)
    exact = residual.mean + beta * control.mean
    noise = float((residual.stderr**2 + beta**2 * control.stderr**2).mean())
    surrogate, size = estimate[used], int(used.sum())
    alpha, gamma, spent = 0.0, 1.0, 0
    if size >= ENOUGH and float(surrogate.var()) > 0:
        x, y = surrogate - surrogate.mean(), exact - exact.mean()
        gamma, spent = max(0.0, float((x @ y) / (x @ x))), 2
        alpha = float(exact.mean() - gamma * surrogate.mean())
    error = float(((exact - alpha - gamma * surrogate) ** 2).sum()) / (size - spent) - noise
    return alpha, gamma, max(error, noise * math.sqrt(2 / size)), slope  # τ² is not known better than its own error


def band_around_cut(surrogate: Surrogate, settings: HybridSettings, cut: Cut) -> Indices:
    """Players within ``width``·τ of the cut, always with those on both sides of it, at most ``max_band``."""
    prior, tau = surrogate.prior[cut.players], surrogate.tau2[cut.players].sqrt()
    distance = (prior - midpoint(prior, cut.k)).abs() / tau.clamp(min=1e-300)
    distance[ranking(prior)[cut.k - 1 : cut.k + 1]] = -1.0
    nearest = torch.argsort(distance, stable=True)[: settings.max_band]
    further = nearest[2 * ENOUGH :]
    band = torch.cat([nearest[: 2 * ENOUGH], further[distance[further] <= settings.width]])
    return cut.players[band].sort().values


def best_ratio(surrogate: Surrogate, flipped: int, gradient_cost: float) -> int:
    """n0/n1, gradient-only coalitions per flipped one, of least variance × cost; near sqrt(ρ²c1/((1−ρ²)c0))."""

    def price(ratio: int) -> float:
        gradients = (ratio + 1) * gradient_cost if ratio else 0.0
        return (1 - surrogate.rho2 * ratio / (ratio + 1)) * (flipped * surrogate.cost + gradients)

    return min(range(MOST_GRADIENTS + 1), key=price)


def shrunk(prior: Vector, tau2: Vector, mean: Vector, stderr: Vector) -> tuple[Vector, Vector]:
    """φ̃ = p + τ²/(τ²+s²)·(φ̂ − p) and its standard deviation: empirical Bayes, best for ranking; p where s = ∞."""
    weight = torch.where(stderr == 0, 1.0, tau2 / (tau2 + stderr**2))
    centre = torch.where(stderr.isinf(), prior, prior + weight * (mean - prior))
    return centre, torch.where(stderr.isinf(), tau2.sqrt(), weight.sqrt() * stderr)


@dataclass(frozen=True)
class Flips:
    """The exact stage: X of the band's players, plain and about the band's mean, which cancels common noise."""

    band: Indices
    plain: Halves
    centred: Moments

    @staticmethod
    def none(band: Indices) -> Flips:
        return Flips(band, Halves.none(len(band)), Moments.none(len(band)))

    @property
    def draws(self) -> int:
        return self.plain.draws

    def extend(self, x: Vector) -> Flips:
        """One more round."""
        return Flips(self.band, self.plain.add(x), self.centred.extend((x - x.mean())[None]))

    def merge(self, other: Flips) -> Flips:
        return Flips(self.band, self.plain.merge(other.plain), self.centred.merge(other.centred))

    def spread(self, moments: Moments, n: int) -> tuple[Vector, Vector]:
        """Mean and standard error for all n players; unknown outside the band."""
        mean, stderr = (torch.full((n,), fill, dtype=torch.float64) for fill in (torch.nan, torch.inf))
        mean[self.band], stderr[self.band] = moments.observed_mean, moments.stderr
        return mean, stderr

    def state(self) -> State:
        return {"band": self.band, "plain": self.plain.state(), "centred": self.centred.state()}

    @staticmethod
    def from_state(state: State) -> Flips:
        return Flips(state["band"], Halves.from_state(state["plain"]), Moments.from_state(state["centred"]))


@dataclass(frozen=True)
class Standing:
    """The ranking after some rounds, and how sure it is."""

    values: Vector  # φ̃
    deviation: Vector
    gap: float  # U − L within the band
    contested: Indices
    expected_wrong: float  # Σ Φ(−|φ̃ − c|/s̃) within the band


def standing(surrogate: Surrogate, flips: Flips, settings: HybridSettings, cut: Cut) -> Standing:
    """φ̃ of everyone; in the band, the gap of the ε-top-k and the expected number of wrong places.

    Why: docs/valuation.md, "When to stop".
    """
    n, band = len(surrogate.prior), flips.band
    values, deviation = shrunk(surrogate.prior, surrogate.tau2, *flips.spread(flips.plain.all, n))
    chosen = cut.chosen(values)
    variance = floored_variance(flips.centred, PSEUDO)
    radius = asymptotic_radius(variance, flips.centred.count, (1 - settings.confidence) / len(band), HORIZON)
    eps = (settings.eps or 0.0) * cut.spread(values)
    if chosen[band].all() or not chosen[band].any():
        gap, contested = -math.inf, band[:0]
    else:
        where = contest(chosen[band], flips.centred.mean, radius, eps)
        gap, contested = where.gap, band[where.contested]
    distance = (values[band] - midpoint(values[cut.players], cut.k)).abs() / deviation[band].clamp(min=1e-300)
    return Standing(values, deviation, gap, contested, float(torch.special.ndtr(-distance).sum()))


def decided(surrogate: Surrogate, flips: Flips, settings: HybridSettings, cut: Cut) -> str:
    """Why sampling may end, or nothing."""
    if flips.draws < settings.burn_in:
        return ""
    now = standing(surrogate, flips, settings, cut)
    if settings.eps is not None:
        return "certified" if now.gap <= settings.eps * cut.spread(now.values) else ""
    return "few places expected to be wrong" if now.expected_wrong <= settings.misplaced * cut.k else ""


def hybrid(game: Game, settings: HybridSettings, **call: Unpack[Call]) -> Valuation:
    """Gradients, a pilot that calibrates them, exact flips of the band around the cut, then fresh flips to report.

    ``values`` are shrunk towards the calibrated gradient and rank; ``unbiased`` come from flips made after the last
    decision, with intervals that are honest because nothing was chosen by looking at them. The cut is that of the
    ``candidates`` (default: everyone); all others are in the game and keep their gradient's value.
    """
    need_gradient(game, "hybrid")
    run = Estimation("hybrid", game, settings, **call)
    run.begin(2 * GRADIENT_COST * share_of_data(game, settings.minibatch), "one pair of gradients")
    halves = gradient_draws(run, settings.gradient, derived_seed(run.seed, "gradient"))
    if "surrogate" in run.state:
        surrogate = Surrogate(**run.state["surrogate"])
    else:
        pilot = run_pilot(run, settings)
        if run.meter.stopped:
            return _without_flips(run, halves)
        surrogate = calibrate(pilot, halves.all.mean, labels(game, "layers"))
    first, fresh = _flip(run, settings, surrogate)
    result = run.result(halves, surrogate=dict(vars(surrogate)), first=first.state(), fresh=fresh.state())
    return _with_flips(result, settings, surrogate, first, fresh, run.cut)


def _flip(run: Estimation, settings: HybridSettings, surrogate: Surrogate) -> tuple[Flips, Flips]:
    """Rounds until decided, then fresh rounds; the budget of the latter is kept back."""
    meter, band = run.meter, band_around_cut(surrogate, settings, run.cut)
    slope_cost = GRADIENT_COST * share_of_data(run.game, settings.minibatch)
    ratio = best_ratio(surrogate, len(band), slope_cost)
    beta = surrogate.slope * ratio / (ratio + 1)  # β* = (ρσ_Δ/σ_g)·n0/(n0+n1)
    cost = settings.strata * (len(band) * surrogate.cost + (ratio + 1 if ratio else 0) * slope_cost)

    def rounds(phase: str, total: int, cost: float, done: Callable[[Flips], str] = never) -> Flips:
        key = "first" if phase == "rounds" else phase
        flips = Flips.from_state(run.state[key]) if key in run.state else Flips.none(band)
        own = derived_seed(run.seed, phase)

        def draw(numbers: range, _: Flips) -> Vector:
            return observe(run.game, band, beta, ratio, settings, own, numbers[0])

        return run.sample(phase, flips, total, draw, cost=cost, done=done)

    first = rounds(
        "rounds",
        settings.rounds,
        cost * (1 + settings.fresh),
        lambda flips: decided(surrogate, flips, settings, run.cut),
    )
    reason = meter.stopped or f"cap of {settings.rounds} rounds reached"
    meter.stopped = "interrupted" if reason == "interrupted" else ""
    fresh = rounds("fresh", settings.fresh, cost)
    meter.stopped = reason if meter.stopped in ("", reason) else f"{reason}, then {meter.stopped}"
    return first, fresh


def _with_flips(
    result: Valuation, settings: HybridSettings, surrogate: Surrogate, first: Flips, fresh: Flips, cut: Cut
) -> Valuation:
    """The result of all stages: what to rank by, what is unbiased, and what may be said about the top-k."""
    n, both = len(result), first.merge(fresh)
    now = standing(surrogate, both, settings, cut)
    unbiased, stderr = first.spread(fresh.plain.all, n)
    counts = torch.zeros(n, dtype=torch.int64)
    counts[fresh.band] = fresh.plain.all.count
    means = zip(result.halves if result.halves is not None else [], (both.plain.even, both.plain.odd), strict=True)
    change = surrogate.prior - result.values  # the calibration, applied to each half's own gradients
    halves = [shrunk(half + change, surrogate.tau2, *both.spread(part, n))[0] for half, part in means]
    gap = max(0.0, now.gap)
    certified = result.stopped == "certified" and gap <= (settings.eps or 0.0) * cut.spread(now.values)
    undone = result.stopped == "certified" and not certified
    return replace(
        result,
        stopped="certified, until the fresh rounds moved the cut" if undone else result.stopped,
        values=now.values,
        stderr=now.deviation,
        counts=counts,
        halves=torch.stack(halves),
        contested=now.contested,
        unbiased=unbiased,
        unbiased_stderr=torch.where(unbiased.isnan(), torch.nan, stderr),
        certified=certified and len(both.band) == len(cut.players),
        eps=gap,
        certificate=_certificate(certified, gap, now, settings, len(both.band), cut),
    )


def _certificate(reached: bool, gap: float, now: Standing, settings: HybridSettings, band: int, cut: Cut) -> str:
    n = len(cut.players)
    among = "" if n == len(now.values) else f"of the {n} players that compete, "
    claim = (
        f"{among}with probability {settings.confidence:g} no chosen player of the {band} near the cut is worth less "
        f"than a rejected one of them by more than {gap:.3g} (time-uniform large-sample radii, union over {band} "
        f"players); {now.expected_wrong:.2g} of {cut.k} places are expected to be wrong"
    )
    if reached and band == n:
        return f"Certified: {claim}."
    outside = "" if band == n else f" The other {n - band} players were placed by the calibrated gradient alone."
    return f"{'Certified among the flipped players only' if reached else 'Not certified'}: {claim}.{outside}"


def _without_flips(run: Estimation, halves: Halves) -> Valuation:
    """Stopped before the pilot was done: gradients are all there is."""
    run.meter.stopped += " before any player was flipped"
    result = run.result(halves)
    nothing = torch.full((len(result),), torch.nan, dtype=torch.float64)
    sentence = "Not certified: stopped before any player was flipped; the values are those of the gradient."
    counts = torch.zeros_like(result.counts)
    return replace(result, unbiased=nothing, unbiased_stderr=nothing, counts=counts, certificate=sentence)

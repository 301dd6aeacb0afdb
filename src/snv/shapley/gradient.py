"""One backward pass gives every player's slope at once: Shapley values up to the curvature in a single gate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from snv.errors import UserError
from snv.seeding import derived_seed, generator
from snv.shapley.budget import (
    UNLIMITED,
    Budget,
    Meter,
    Progress,
    Settings,
    ends,
    halves_of,
    require,
    rows_of_draw,
    share_of_data,
    state_of,
    summary,
)
from snv.shapley.game import Game
from snv.shapley.moments import Halves
from snv.shapley.result import Valuation

GRADIENT_COST = 3.0  # in V(S): one pass forward, about two back
GOLDEN = 0.6180339887498949

Masks = Literal["beta", "binary", "diagonal"]


@dataclass(frozen=True)
class GradientSettings(Settings):
    draws: int = 48  # gradients; they come in pairs (m, 1 − m), so 20 draws are 10 pairs
    masks: Masks = "beta"  # beta: best compromise; binary: keeps all mask noise; diagonal: integrated gradients
    concentration: float = 1.0  # a of Beta(a·t, a(1−t)): → 0 is binary, → ∞ the diagonal
    minibatch: int | None = 32  # examples per pair, fresh ones for each; None: all. More pairs beat more examples
    chunk: int = 2  # gates per call, where all examples are used; a pair at a time, continued runs agree bit for bit

    may_change = frozenset({"draws", "chunk"})

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.masks in ("beta", "binary", "diagonal"), f"masks is beta, binary or diagonal; got {self.masks!r}.")
        require(
            self.draws >= 1 and (self.masks == "diagonal" or self.draws % 2 == 0),
            f"draws come in pairs (m, 1 − m), so their number is even and positive; got {self.draws}.",
        )
        require(
            self.concentration >= 0.05, f"concentration is at least 0.05 (below, use binary); got {self.concentration}."
        )
        require(
            self.minibatch is None or self.minibatch >= 1, f"minibatch is at least 1 or None; got {self.minibatch}."
        )
        require(self.chunk >= 2, f"chunk is a number of gates, at least 2; got {self.chunk}.")

    def forecast(self, game: Game) -> float:
        return 2.0 + self.draws * GRADIENT_COST * share_of_data(game, self.minibatch)


def need_gradient(game: Game, method: str) -> None:
    """Refuse a game without slopes before anything is spent."""
    if not game.differentiable:
        raise UserError(
            f"{method} needs ∂V/∂m, and this game ({type(game).__name__}) has no gradient. "
            "Use exact (up to 16 players), montecarlo, truncated or tmab."
        )


def level(seed: int, pair: int) -> float:
    """t of one pair: a random start, then steps of the golden ratio, so that any number of pairs is evenly spread."""
    start = float(torch.rand((), generator=generator(seed, "level"), dtype=torch.float64))
    return (start + pair * GOLDEN) % 1.0


def gates_of_pair(n: int, settings: GradientSettings, seed: int, pair: int) -> Float64[Tensor, "2 n"]:
    """m with E m = t, and its complement 1 − m."""
    t, rng = level(seed, pair), np.random.default_rng(derived_seed(seed, "draw", pair))
    if settings.masks == "binary":
        mask = (rng.random(n) < t).astype(np.float64)
    else:
        a = settings.concentration
        mask = rng.beta(max(a * t, 1e-6), max(a * (1 - t), 1e-6), n)
    first = torch.from_numpy(mask)
    return torch.stack([first, 1 - first])


def gradient_draws(meter: Meter, settings: GradientSettings, seed: int, halves: Halves) -> Halves:
    """g = (∂v(m) + ∂v(1 − m))/2 of further pairs, each one observation."""
    game, total = meter.game, settings.draws // 2
    cost = 2 * GRADIENT_COST * share_of_data(game, settings.minibatch)
    with meter.phase("gradients"):
        while halves.draws < total:
            rows = rows_of_draw(game, settings.minibatch, seed, halves.draws)
            meter.check(cost)
            most = min(settings.chunk // 2, total - halves.draws)
            pairs = meter.how_often(cost, most) if rows is None else 1
            draws = range(halves.draws, halves.draws + pairs)
            gates = torch.cat([gates_of_pair(game.n, settings, seed, draw) for draw in draws])
            slopes, _ = game.gradient(gates, rows)
            halves = halves.extend(slopes.double().cpu().reshape(pairs, 2, game.n).mean(1))
            meter.report(halves.draws, total)
    return halves


def gradient(
    game: Game,
    settings: GradientSettings,
    *,
    seed: int = 0,
    budget: Budget = UNLIMITED,
    progress: Progress | None = None,
    resume: Valuation | None = None,
) -> Valuation:
    """φ̂_i = E ∂v/∂m_i at random gates: the multilinear extension's slope along the diagonal, at N-independent cost.

    Biased by the curvature of v in a single gate; `efficiency_ratio` far from 1 is the alarm.
    """
    need_gradient(game, "gradient")
    state = state_of(resume, "gradient", seed, settings, game)
    meter = Meter(game, budget, progress, resume)
    cost = GRADIENT_COST * share_of_data(game, settings.minibatch)
    if settings.masks == "diagonal":
        require(
            resume is None, "The nodes of the diagonal depend on their number, so it cannot be continued; run it anew."
        )
        meter.need(2 + settings.draws * cost, f"{settings.draws} gradients along the diagonal")
        return _diagonal(meter, settings, seed)
    meter.need(2 * cost + 2 * (resume is None), "one pair of gradients")
    limits = ends(game, resume)
    halves = gradient_draws(meter, settings, seed, halves_of(state, game.n))
    return summary("gradient", seed, settings, meter, limits, halves, state)


def _diagonal(meter: Meter, settings: GradientSettings, seed: int) -> Valuation:
    """φ̂_i = Σ_q w_q ∂_i v(t_q·1) with Gauss–Legendre nodes (Aumann–Shapley); no draws, hence no standard error."""
    game = meter.game
    nodes, weights = np.polynomial.legendre.leggauss(settings.draws)
    total, weight = torch.zeros(game.n, dtype=torch.float64), 0.0
    limits = ends(game, None)
    with meter.phase("gradients"):
        order = torch.randperm(
            settings.draws, generator=generator(seed, "nodes")
        ).tolist()  # any part of it is spread out
        for done, q in enumerate(order):
            meter.check()
            gates = torch.full((1, game.n), (nodes[q] + 1) / 2, dtype=torch.float64)
            slopes, _ = game.gradient(gates, rows_of_draw(game, settings.minibatch, seed, done))
            total, weight = total + weights[q] * slopes[0].double().cpu(), weight + weights[q]
            meter.report(done + 1, settings.draws)
    result = summary("gradient", seed, settings, meter, limits, Halves.none(game.n), {})
    unknown = torch.full((game.n,), torch.nan, dtype=torch.float64)
    counts = torch.full((game.n,), round(weight / 2 * settings.draws), dtype=torch.int64)
    state = {"settings": settings.lasting()}
    return replace(result, values=total / weight, stderr=unknown, counts=counts, halves=None, state=state)

"""One backward pass gives every player's slope at once: Shapley values up to the curvature in a single gate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Unpack

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from snv.errors import UserError
from snv.machine import ranks
from snv.seeding import derived_seed, generator
from snv.shapley.budget import Settings, require, rows_of_draw, share_of_data
from snv.shapley.game import Game
from snv.shapley.moments import Halves, Observations
from snv.shapley.result import Valuation
from snv.shapley.sampling import Call, Estimation

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


def gradient_draws(run: Estimation, settings: GradientSettings, seed: int) -> Halves:
    """g = (∂v(m) + ∂v(1 − m))/2 of further pairs, each one observation."""
    game, share = run.game, share_of_data(run.game, settings.minibatch)
    cost, at_once = 2 * GRADIENT_COST * share, settings.chunk // 2 if share == 1.0 else 1

    def slopes(numbers: range) -> Float64[Tensor, "m n"]:
        gates = torch.cat([gates_of_pair(game.n, settings, seed, number) for number in numbers])
        found, _payoffs = game.gradient(gates, rows_of_draw(game, settings.minibatch, seed, numbers[0]))
        return found.double().cpu().reshape(len(numbers), 2, game.n).mean(1)

    def draw(numbers: range, _: Halves) -> Float64[Tensor, "m n"]:
        """Of several processes each takes some, and all have all."""
        chunks, before = [numbers[i : i + at_once] for i in range(0, len(numbers), at_once)], game.evaluations
        mine = [slopes(chunk) for chunk in chunks[ranks.rank() :: ranks.size()]]
        game.evaluations = before + ranks.total(game.evaluations - before)[0]
        return torch.cat(ranks.interleaved(mine))

    return run.sample("gradients", run.halves, settings.draws // 2, draw, cost=cost, at_once=at_once * ranks.size())


def gradient(game: Game, settings: GradientSettings, **call: Unpack[Call]) -> Valuation:
    """φ̂_i = E ∂v/∂m_i at random gates: the multilinear extension's slope along the diagonal, at N-independent cost.

    Biased by the curvature of v in a single gate; `efficiency_ratio` far from 1 is the alarm.
    """
    need_gradient(game, "gradient")
    run = Estimation("gradient", game, settings, **call)
    if settings.masks == "diagonal":
        return _diagonal(run, settings)
    run.begin(2 * GRADIENT_COST * share_of_data(game, settings.minibatch), "one pair of gradients")
    return run.result(gradient_draws(run, settings, run.seed))


def _diagonal(run: Estimation, settings: GradientSettings) -> Valuation:
    """φ̂_i = Σ_q w_q ∂_i v(t_q·1) with Gauss–Legendre nodes (Aumann–Shapley); no draws, hence no standard error."""
    game, cost = run.game, GRADIENT_COST * share_of_data(run.game, settings.minibatch)
    require(
        run.resume is None, "The nodes of the diagonal depend on their number, so it cannot be continued; run it anew."
    )
    run.begin(settings.draws * cost, f"{settings.draws} gradients along the diagonal")
    nodes, weights = (torch.from_numpy(of) for of in np.polynomial.legendre.leggauss(settings.draws))
    order = torch.randperm(settings.draws, generator=generator(run.seed, "nodes"))  # any part of it is spread out

    def draw(numbers: range, _: Observations) -> Float64[Tensor, "1 n"]:
        gates = ((nodes[order[numbers[0]]] + 1) / 2).expand(1, game.n)
        return game.gradient(gates, rows_of_draw(game, settings.minibatch, run.seed, numbers[0]))[0].double().cpu()

    none = Observations(torch.zeros(0, game.n, dtype=torch.float64))
    slopes = run.sample("gradients", none, settings.draws, draw, cost=cost).rows
    used = weights[order[: len(slopes)]]
    weight = sum(used, torch.zeros((), dtype=torch.float64))
    unknown = torch.full((game.n,), torch.nan, dtype=torch.float64)
    return replace(
        run.result(Halves.none(game.n)),
        values=sum(used[:, None] * slopes, torch.zeros(game.n, dtype=torch.float64)) / weight,
        stderr=unknown,
        counts=torch.full((game.n,), round(float(weight) / 2 * settings.draws), dtype=torch.int64),
        halves=None,
        state={"settings": settings.lasting()},
    )

"""Shapley values as a weighted least-squares fit to random coalitions and their complements (LeverageSHAP)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Unpack

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from snv.seeding import generator
from snv.shapley.budget import Settings, require, rows_of_draw, share_of_data
from snv.shapley.game import Game
from snv.shapley.gradient import level
from snv.shapley.moments import Halves, Observations, Vector
from snv.shapley.result import Valuation, straddling
from snv.shapley.sampling import Call, Estimation

MOST_PLAYERS = 2000  # the fit takes O(m n²) steps and an n × n matrix


@dataclass(frozen=True)
class RegressionSettings(Settings):
    coalitions: int = 2000  # they come in pairs (S, M ∖ S); fewer than 2n leave the fit undetermined
    minibatch: int | None = None  # examples per pair; None: all
    chunk: int = 128  # pairs per call of the game, where all examples are used

    may_change = frozenset({"coalitions", "chunk"})

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.coalitions >= 2 and self.coalitions % 2 == 0,
            f"coalitions come in pairs (S, M ∖ S), so their number is even and positive; got {self.coalitions}.",
        )
        require(
            self.minibatch is None or self.minibatch >= 1, f"minibatch is at least 1 or None; got {self.minibatch}."
        )
        require(self.chunk >= 1, f"chunk is a number of pairs, at least 1; got {self.chunk}.")

    def forecast(self, game: Game) -> float:
        return 2.0 + self.coalitions * share_of_data(game, self.minibatch)


def coalition_of_draw(n: int, seed: int, draw: int) -> Bool[Tensor, " n"]:
    """S of one pair: |S| uniform on 1..n−1, which is sampling by leverage (Musco and Witter, 2025), evenly spread."""
    size = 1 + int(level(seed, draw) * (n - 1))
    places = torch.randperm(n, generator=generator(seed, "draw", draw))
    return places < size


def coalitions_of_draws(n: int, seed: int, draws: range) -> Bool[Tensor, "m n"]:
    return torch.stack([coalition_of_draw(n, seed, draw) for draw in draws])


def fit(coalitions: Bool[Tensor, "m n"], differences: Float64[Tensor, " m"], gain: float) -> tuple[Vector, Vector]:
    """φ̂ = argmin Σ_S w(S) (d(S) − a(S)·φ)² subject to Σφ = V(M) − V(∅), and its standard errors.

    A pair (S, M ∖ S) says d = (V(S) − V(M ∖ S))/2 about a = 1_S − ½, up to Σφ. With |S| uniform the Shapley kernel
    leaves the weight 1/(s(n − s)). Errors are those of least squares with unequal variances (White, 1980).
    """
    n = coalitions.shape[1]
    size = coalitions.sum(1, dtype=torch.float64)
    root = (size * (n - size)).rsqrt()
    target = root * (differences - (size / n - 0.5) * gain)
    matrix = root[:, None] * (coalitions.double() - size[:, None] / n)  # rows sum to 0, so they say nothing on Σφ
    inverse = torch.linalg.pinv(matrix.T @ matrix, rtol=1e-10, hermitian=True)  # singular along (1, …, 1), at least
    deviation = inverse @ (matrix.T @ target)
    residual = target - matrix @ deviation
    free = len(target) - (n - 1)
    scores = (matrix @ inverse) * residual[:, None]
    unknown = torch.full((n,), torch.inf, dtype=torch.float64)
    stderr = (scores.square().sum(0) * len(target) / free).sqrt() if free > 0 else unknown
    return gain / n + deviation, stderr


def regression(game: Game, settings: RegressionSettings, **call: Unpack[Call]) -> Valuation:
    """The additive game nearest to V in the Shapley kernel's norm has φ as its weights: fit it to sampled pairs.

    Consistent, with a bias that vanishes like 1/m, and Σφ̂ is exact; exact itself where interactions are pairwise and
    there are n pairs. Strong where V is nearly additive, weak where V spans much more than its marginals.
    """
    require(
        2 <= game.n <= MOST_PLAYERS,
        f"regression takes 2 to {MOST_PLAYERS} players, because it solves for all of them at once; got {game.n}. "
        "Use gradient or montecarlo.",
    )
    run = Estimation("regression", game, settings, **call)
    share = share_of_data(game, settings.minibatch)
    run.begin(2 * share, "one pair of coalitions")

    def draw(numbers: range, _: Observations) -> Float64[Tensor, " d"]:
        chosen = coalitions_of_draws(game.n, run.seed, numbers)
        rows = rows_of_draw(game, settings.minibatch, run.seed, numbers[0])
        payoffs, complements = game.values(torch.cat([chosen, ~chosen]), rows).double().chunk(2)
        return (payoffs - complements) / 2

    pairs = Observations(run.state.get("differences", torch.zeros(0, dtype=torch.float64)))
    at_once = settings.chunk if share == 1.0 else 1
    pairs = run.sample("coalitions", pairs, settings.coalitions // 2, draw, cost=2 * share, at_once=at_once)
    return _solved(run.result(Halves.none(game.n)), settings, pairs.rows)


def _solved(result: Valuation, settings: RegressionSettings, differences: Float64[Tensor, " m"]) -> Valuation:
    """The result with the fit to all pairs, and to the even and the odd ones."""
    n, m, gain = len(result), len(differences), result.v_all - result.v_none
    state = {"settings": settings.lasting(), "differences": differences}
    if m == 0:
        return replace(result, state=state)
    coalitions = coalitions_of_draws(n, result.seed, range(m))
    values, stderr = fit(coalitions, differences, gain)
    halves = torch.stack([fit(coalitions[h::2], differences[h::2], gain)[0] for h in (0, 1)]) if m > 1 else None
    return replace(
        result,
        values=values,
        stderr=stderr,
        counts=torch.full((n,), m, dtype=torch.int64),
        halves=halves,
        contested=straddling(values, stderr, result.k),
        state=state,
    )

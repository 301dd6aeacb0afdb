"""Shapley values by enumeration of all 2^n coalitions (Eq. 6): the oracle of every other estimator.

They alone have the four properties the paper asks for (Eqs. 2 to 5): efficiency, symmetry, null player, linearity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Unpack

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from snv.shapley.budget import Settings, require
from snv.shapley.game import Game
from snv.shapley.moments import Halves, Observations, Vector
from snv.shapley.result import Valuation
from snv.shapley.sampling import Call, Estimation

MOST_PLAYERS = 16  # 65,536 coalitions


@dataclass(frozen=True)
class ExactSettings(Settings):
    chunk: int = 1024  # coalitions per call of the game

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.chunk >= 1, f"chunk is a number of coalitions, at least 1; got {self.chunk}.")

    def forecast(self, game: Game) -> float:
        return 2.0**game.n


def coalitions_of(codes: Int64[Tensor, " p"], n: int) -> Bool[Tensor, "p n"]:
    """The coalition of each code: player i takes part if bit i is set."""
    return (codes[:, None] >> torch.arange(n)) & 1 == 1


def shapley_of_table(payoffs: Float64[Tensor, " c"], n: int) -> Vector:
    """φ_i = Σ_{S ∌ i} |S|!(n−|S|−1)!/n! (V(S ∪ i) − V(S)), with V(S) at the code of S (Eq. 6)."""
    codes = torch.arange(2**n)
    size = coalitions_of(codes, n).sum(1)
    weight = torch.tensor([1 / (n * math.comb(n - 1, s)) for s in range(n)], dtype=torch.float64)
    values = torch.empty(n, dtype=torch.float64)
    for i in range(n):
        without = codes[(codes >> i) & 1 == 0]
        values[i] = (weight[size[without]] * (payoffs[without + 2**i] - payoffs[without])).sum()
    return values


def exact(game: Game, settings: ExactSettings, **call: Unpack[Call]) -> Valuation:
    """The Shapley values themselves; stopped early it has none yet, but `resume` goes on where it was."""
    n = game.n
    require(
        n <= MOST_PLAYERS,
        f"exact looks at all 2^n coalitions, so it takes up to {MOST_PLAYERS} players; this game has {n}. "
        "Use montecarlo, gradient or hybrid.",
    )
    run = Estimation("exact", game, settings, **call)
    known = run.state.get("payoffs", torch.zeros(0, dtype=torch.float64))
    run.meter.need(2**n - len(known), "all coalitions")
    payoffs = run.sample(
        "coalitions",
        Observations(known),
        2**n,
        lambda codes, _: game.values(coalitions_of(torch.arange(codes.start, codes.stop), n)),
        cost=1,
        at_once=settings.chunk,
    ).rows
    done = len(payoffs) == 2**n
    values = shapley_of_table(payoffs, n) if done else torch.full((n,), torch.nan, dtype=torch.float64)
    eps = 0.0 if done else math.inf
    return replace(
        run.result(Halves.none(n), "all coalitions enumerated"),
        values=values,
        stderr=torch.full((n,), eps, dtype=torch.float64),
        counts=torch.full((n,), 2 ** (n - 1) if done else 0, dtype=torch.int64),
        v_all=float(payoffs[-1]) if done else math.nan,
        v_none=float(payoffs[0]) if len(payoffs) else math.nan,
        halves=values.expand(2, n) if done else None,
        certified=done,
        eps=eps,
        certificate="Exact: every coalition was looked at." if done else "Not certified: enumeration is not complete.",
        state={"settings": settings.lasting(), "payoffs": payoffs},
    )

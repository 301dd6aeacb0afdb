"""How well two valuations agree: what they select, how they rank, and how far apart they are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from snv.errors import UserError
from snv.shapes import Indices, Mask, Values

Number: TypeAlias = int | float  # the shape checker, unlike mypy, does not take an int for a float


def how_many(k: Number, n: int) -> int:
    """k players if k is an integer, ⌊k·n⌋ (at least one) if it is a share."""
    if isinstance(k, int) and not isinstance(k, bool) and 1 <= k <= n:
        return k
    if isinstance(k, float) and 0 < k <= 1:
        return max(1, int(k * n + 1e-9))  # 0.07 · 100 is 7, whatever binary fractions say
    raise UserError(f"k is a number of players from 1 to {n}, or a share of them in (0, 1]; got {k!r}. Try 0.1.")


def ranking(values: Values) -> Indices:
    """All players, the largest (signed) value first; ties go to the lower index, unknown values come last."""
    return torch.argsort(values.nan_to_num(nan=-torch.inf), descending=True, stable=True)


def top_k(values: Values, k: Number) -> Indices:
    """The k players of largest (signed) value, best first; a player without a value is never among them."""
    wanted, known = how_many(k, len(values)), int((~values.isnan()).sum())
    if known < wanted:
        raise UserError(
            f"The top {wanted} of {len(values)} players were asked for, but only {known} have a value. Sample more, or "
            "ask for fewer."
        )
    return ranking(values)[:wanted]


@dataclass(frozen=True)
class Cut:
    """k places, and the players that compete for them."""

    k: int
    players: Indices

    @staticmethod
    def among(k: Number, n: int, candidates: Mask | None) -> Cut:
        """k (a number, or a share) of the candidates; of all n players if there are none."""
        players = torch.arange(n) if candidates is None else candidates.nonzero()[:, 0]
        return Cut(how_many(k, len(players)), players)

    def best(self, values: Values) -> Indices:
        """Who gets the places, best first."""
        return self.players[top_k(values[self.players], self.k)]

    def chosen(self, values: Values) -> Mask:
        """True for those who get the places."""
        mask = torch.zeros(len(values), dtype=torch.bool)
        mask[self.best(values)] = True
        return mask

    def spread(self, values: Values) -> float:
        """The standard deviation of the values that compete."""
        return float(values[self.players].std(correction=0))


def top_k_precision(estimate: Values, truth: Values, k: Number) -> float:
    """The share of the estimated top-k that is in the true top-k."""
    chosen, right = top_k(estimate, k), top_k(truth, k)
    return float(torch.isin(chosen, right).double().mean())


def ranks(values: Values) -> Values:
    """0-based ranks; tied values share the mean of their places."""
    _, which, sizes = np.unique(values.double().numpy(), return_inverse=True, return_counts=True)
    return torch.from_numpy((sizes.cumsum() - (sizes + 1) / 2)[which])


def pearson(a: Values, b: Values) -> float:
    """Correlation; not-a-number if one side is constant."""
    x, y = a.double() - a.double().mean(), b.double() - b.double().mean()
    return float((x @ y) / (x.norm() * y.norm()))


def spearman(a: Values, b: Values) -> float:
    """Correlation of the ranks."""
    return pearson(ranks(a), ranks(b))


def relative_error(estimate: Values, truth: Values) -> float:
    """mean (φ̂ − φ)² / Var φ: 0 is perfect, 1 is as good as giving everyone the mean."""
    return float(((estimate - truth) ** 2).mean() / truth.double().var(correction=0))


def split_half_overlap(halves: Float[Tensor, "2 n"], k: Number) -> float:
    """The share of one half's top-k that the other, independent half chooses too; NaN if one has not so many values."""
    if int((~halves.isnan()).sum(1).min()) < how_many(k, halves.shape[1]):
        return math.nan
    return top_k_precision(halves[0], halves[1], k)

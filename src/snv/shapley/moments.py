"""Count, mean and variance per player, in float64, that merge in any order (Chan, Golub and LeVeque, 1983)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from snv.files import State
from snv.shapes import Indices

Vector = Float64[Tensor, " n"]


@dataclass(frozen=True)
class Moments:
    """n_i, x̄_i and M2_i = Σ(x − x̄_i)² of the observations of each player; a new object comes out of every change."""

    count: Int64[Tensor, " n"]
    mean: Vector
    m2: Vector

    @staticmethod
    def none(n: int) -> Moments:
        """Nothing observed yet."""
        zeros = torch.zeros(n, dtype=torch.float64)
        return Moments(torch.zeros(n, dtype=torch.int64), zeros, zeros)

    @staticmethod
    def of(observations: Float64[Tensor, "m n"]) -> Moments:
        """The moments of m observations of every player."""
        mean = observations.mean(0)
        count = torch.full((observations.shape[1],), len(observations), dtype=torch.int64)
        return Moments(count, mean, ((observations - mean) ** 2).sum(0))

    def extend(self, xs: Float64[Tensor, "m p"], players: Indices | None = None) -> Moments:
        """Further observations of each of ``players`` (of everyone if None), one after the other (Welford, 1962).

        Not by `merge`: so the bits of the result do not depend on how many observations arrive at a time.
        """
        at = slice(None) if players is None else players
        count, mean, m2 = self.count.clone(), self.mean.clone(), self.m2.clone()
        for x in xs:
            count[at] += 1
            step = x - mean[at]
            mean[at] += step / count[at]
            m2[at] += step * (x - mean[at])
        return Moments(count, mean, m2)

    def merge(self, other: Moments) -> Moments:
        """The moments of both samples together: x̄ = x̄_a + δ n_b/n, M2 = M2_a + M2_b + δ² n_a n_b/n."""
        count = self.count + other.count
        share = other.count / count.clamp(min=1).double()
        step = other.mean - self.mean
        return Moments(count, self.mean + step * share, self.m2 + other.m2 + step**2 * share * self.count.double())

    def select(self, players: Indices) -> Moments:
        """The moments of some players only."""
        return Moments(self.count[players], self.mean[players], self.m2[players])

    @property
    def variance(self) -> Vector:
        """s² = M2/(n − 1); infinite, because unknown, before the second observation."""
        return torch.where(self.count > 1, self.m2 / (self.count - 1).clamp(min=1), torch.inf)

    @property
    def stderr(self) -> Vector:
        """s/√n, the standard error of the mean."""
        return (self.variance / self.count.clamp(min=1)).sqrt()

    @property
    def observed_mean(self) -> Vector:
        """x̄, not-a-number for players that were never observed."""
        return torch.where(self.count > 0, self.mean, torch.nan)

    def state(self) -> State:
        return {"count": self.count, "mean": self.mean, "m2": self.m2}

    @staticmethod
    def from_state(state: State) -> Moments:
        return Moments(state["count"], state["mean"], state["m2"])


@dataclass(frozen=True)
class Halves:
    """Draws 0, 2, 4, … and draws 1, 3, 5, … apart, so that two independent answers can be compared."""

    even: Moments
    odd: Moments
    draws: int = 0

    @staticmethod
    def none(n: int) -> Halves:
        return Halves(Moments.none(n), Moments.none(n))

    def extend(self, xs: Float64[Tensor, "m p"], players: Indices | None = None) -> Halves:
        """The next draws, credited to the two halves in turn."""
        first = self.draws % 2
        even, odd = self.even.extend(xs[first::2], players), self.odd.extend(xs[1 - first :: 2], players)
        return Halves(even, odd, self.draws + len(xs))

    def add(self, x: Float64[Tensor, " p"], players: Indices | None = None) -> Halves:
        """The next draw."""
        return self.extend(x[None], players)

    def merge(self, other: Halves) -> Halves:
        return Halves(self.even.merge(other.even), self.odd.merge(other.odd), self.draws + other.draws)

    @property
    def all(self) -> Moments:
        return self.even.merge(self.odd)

    @property
    def means(self) -> Float64[Tensor, "2 n"]:
        return torch.stack([self.even.observed_mean, self.odd.observed_mean])

    def state(self) -> State:
        return {"even": self.even.state(), "odd": self.odd.state(), "draws": self.draws}

    @staticmethod
    def from_state(state: State) -> Halves:
        return Halves(Moments.from_state(state["even"]), Moments.from_state(state["odd"]), int(state["draws"]))


@dataclass(frozen=True)
class Observations:
    """The observations of all draws, in order, for estimates that are no mean of them."""

    rows: Float64[Tensor, "m ..."]

    @property
    def draws(self) -> int:
        return len(self.rows)

    def extend(self, rows: Float64[Tensor, "d ..."]) -> Observations:
        return Observations(torch.cat([self.rows, rows]))

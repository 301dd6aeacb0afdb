"""Radii around a mean: pointwise (for one look) and time-uniform (for as many looks as one likes)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from snv.files import State
from snv.shapes import Indices
from snv.shapley.moments import Moments, Vector

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)


def normal_quantile(p: float) -> float:
    """z_p, the p-quantile of the standard normal distribution."""
    return float(torch.special.ndtri(torch.tensor(p, dtype=torch.float64)))


def t_quantile(p: float, freedom: int) -> float:
    """The p-quantile (p ≥ ½) of Student's t with ``freedom`` degrees of freedom, to about seven digits."""
    if freedom >= 30:
        return _t_expansion(normal_quantile(p), freedom)
    # with t = √ν tan θ the distribution is ½ + c ∫₀^θ cos^{ν−1}, smooth enough for 64 nodes and bisection
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(math.pi)
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        area = middle / 2 * float((_WEIGHTS * np.cos(middle / 2 * (_NODES + 1)) ** (freedom - 1)).sum())
        low, high = (middle, high) if 0.5 + scale * area < p else (low, middle)
    return math.sqrt(freedom) * math.tan(low)


def _t_expansion(z: float, freedom: int) -> float:
    """Fisher and Cornish's expansion of the t quantile around the normal one, in powers of 1/ν."""
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + math.fsum(term / float(freedom) ** power for power, term in enumerate(terms, start=1))


def z_radius(moments: Moments, confidence: float) -> Vector:
    """z_{(1+α)/2} s/√n: what the paper uses; right for one player, one look and a large sample."""
    return normal_quantile((1 + confidence) / 2) * moments.stderr


def t_radius(stderr: Vector, count: Int64[Tensor, " n"], confidence: float) -> Vector:
    """t_{n−1} s/√n: right for one player and one look; infinite before the second observation."""
    sizes, which = np.unique(count.numpy(), return_inverse=True)
    quantiles = [t_quantile((1 + confidence) / 2, int(size) - 1) if size > 1 else math.inf for size in sizes]
    radius = torch.tensor(quantiles, dtype=torch.float64)[torch.from_numpy(which)] * stderr
    return torch.where(count > 1, radius, stderr * math.inf)  # a stderr that is not a number stays so


def asymptotic_radius(variance: Vector, count: Int64[Tensor, " n"], alpha: float, horizon: float) -> Vector:
    """r(n) = σ sqrt(2(nρ²+1)/(n²ρ²) ln(√(nρ²+1)/α)), a confidence sequence for large samples.

    Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (2024). It holds at all n at once; ρ² makes it tightest near
    n = ``horizon``. Share α out among the players (α/N each) for a statement about all of them.
    """
    rho2 = (-2 * math.log(alpha) + math.log(1 - 2 * math.log(alpha))) / horizon
    n = count.double().clamp(min=1)
    factor = 2 * (n * rho2 + 1) / (n**2 * rho2) * ((n * rho2 + 1).log() / 2 - math.log(alpha))
    return torch.where(count > 1, (variance * factor).sqrt(), torch.inf)


def floored_variance(moments: Moments, weight: float) -> Vector:
    """s², but no less than s² averaged with ``weight`` pseudo-observations of the players' mean variance.

    Where most marginals are 0, a player may show none that is not: its s² = 0 would be taken for certainty.
    """
    known = moments.count > 1
    pooled = moments.variance[known].mean()
    n = moments.count.double()
    blended = (n * moments.variance + weight * pooled) / (n + weight)
    return torch.where(known, torch.maximum(moments.variance, blended), torch.inf)


@dataclass(frozen=True)
class BernsteinSequence:
    """The predictable empirical-Bernstein confidence sequence of each player, for observations in [0, 1].

    Waudby-Smith and Ramdas (2024): centre Σλx/Σλ, radius (ln(2/α) + Σ4(x − μ̂)²ψ(λ))/Σλ, ψ(λ) = (−ln(1−λ) − λ)/4,
    λ_j = min(½, sqrt(2 ln(2/α)/(σ̂²_{j−1} j ln(1+j)))). It holds for every n, at the price of being wide.
    """

    alpha: float
    count: Int64[Tensor, " n"]
    total: Vector  # Σx
    squares: Vector  # Σ(x_j − μ̂_j)²
    weight: Vector  # Σλ
    weighted: Vector  # Σλx
    spread: Vector  # Σ4(x − μ̂_{j−1})²ψ(λ)

    @staticmethod
    def none(n: int, alpha: float) -> BernsteinSequence:
        zeros = torch.zeros(n, dtype=torch.float64)
        return BernsteinSequence(alpha, torch.zeros(n, dtype=torch.int64), zeros, zeros, zeros, zeros, zeros)

    def add(self, x: Float64[Tensor, " m"], players: Indices | None = None) -> BernsteinSequence:
        """One more observation of each of ``players`` (of everyone if None)."""
        at = torch.arange(len(self.count)) if players is None else players
        past = self.count[at].double()
        mean_before = (0.5 + self.total[at]) / (past + 1)
        variance_before = (0.25 + self.squares[at]) / (past + 1)
        now = past + 1
        bet = (2 * math.log(2 / self.alpha) / (variance_before * now * (1 + now).log())).sqrt().clamp(max=0.5)
        psi = (-torch.log1p(-bet) - bet) / 4
        mean_after = (0.5 + self.total[at] + x) / (now + 1)
        return BernsteinSequence(
            self.alpha,
            self.count.index_add(0, at, torch.ones_like(at)),
            self.total.index_add(0, at, x),
            self.squares.index_add(0, at, (x - mean_after) ** 2),
            self.weight.index_add(0, at, bet),
            self.weighted.index_add(0, at, bet * x),
            self.spread.index_add(0, at, 4 * (x - mean_before) ** 2 * psi),
        )

    @property
    def centre(self) -> Vector:
        return self.weighted / self.weight

    @property
    def radius(self) -> Vector:
        return torch.where(self.count > 0, (math.log(2 / self.alpha) + self.spread) / self.weight, torch.inf)

    def state(self) -> State:
        return dict(vars(self))

    @staticmethod
    def from_state(state: State) -> BernsteinSequence:
        return BernsteinSequence(**state)

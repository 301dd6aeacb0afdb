"""Student's t: how likely a difference is by chance, and how far it may be from the truth. For whole degrees."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence


def share_within(t: float, degrees: int) -> float:
    """P(|T| ≤ t), by the finite sums that hold for a whole number of degrees of freedom."""
    angle = math.atan(abs(t) / math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = degrees % 2
    term, total = (cosine if odd else 1.0), 0.0
    for k in range(1 + odd, degrees, 2):  # cos^k, each with its quotient of odd and even numbers
        total += term
        term *= cosine**2 * k / (k + 1)
    return 2 / math.pi * (angle + sine * total) if odd else sine * total


def quantile(share: float, degrees: int) -> float:
    """The t that ``share`` of all |T| stay within, by halving."""
    low, high = 0.0, 1.0
    while share_within(high, degrees) < share:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if share_within(middle, degrees) < share else (low, middle)
    return high


def p_value(differences: Sequence[float]) -> float:
    """Of the two-sided t test whether the mean is 0; equal differences leave no doubt, or nothing to doubt."""
    mean, deviation = statistics.mean(differences), statistics.stdev(differences)
    if deviation == 0:
        return 1.0 if mean == 0 else 0.0
    return max(0.0, 1 - share_within(mean / deviation * math.sqrt(len(differences)), len(differences) - 1))


def interval(differences: Sequence[float], share: float = 0.95) -> tuple[float, float]:
    """In which the mean lies, with confidence ``share``."""
    mean, n = statistics.mean(differences), len(differences)
    half = quantile(share, n - 1) * statistics.stdev(differences) / math.sqrt(n)
    return mean - half, mean + half

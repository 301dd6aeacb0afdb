"""Softmax and distillation written out in loops, for tests to compare with."""

from __future__ import annotations

import math


def softmax(z: list[float]) -> list[float]:
    total = sum(math.exp(x) for x in z)
    return [math.exp(x) / total for x in z]


def plain_kd(teacher: list[list[float]], student: list[list[float]], tau: float) -> float:
    """KD_τ as it is printed."""
    per_image = []
    for a, b in zip(teacher, student, strict=True):
        p, q = softmax([x / tau for x in a]), softmax([x / tau for x in b])
        per_image.append(-sum(x * math.log(y) for x, y in zip(p, q, strict=True)))
    return tau**2 * sum(per_image) / len(per_image)

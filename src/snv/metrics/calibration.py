"""How far probabilities can be trusted: the temperature that makes them honest, and the error that is left."""

from __future__ import annotations

import math
from typing import NamedTuple

from snv.shapes import Labels, Logits

COLDEST, HOTTEST = 0.05, 20.0
"""Where the temperature is looked for. Logits that are right on every image would be sharpened without end."""


class Bin(NamedTuple):
    """Images whose top probability lies in (low, high]: how sure the network was, and how often it was right."""

    low: float
    high: float
    images: int
    confidence: float
    accuracy: float


def temperature(logits: Logits, labels: Labels) -> float:
    """The T that minimises the mean of −log softmax(z / T)_y (Guo et al., 2017), within [COLDEST, HOTTEST].

    The loss is convex in β = 1/T, so its slope in β, the mean of Σ_k p_k z_k − z_y, is bisected.
    """
    if len(labels) == 0:
        raise ValueError("A temperature is fitted to labelled logits; got none. Give it validation images.")
    z = logits.detach().double()
    of_label = z.gather(1, labels[:, None])[:, 0]  # z_y
    coldest, hottest = COLDEST, HOTTEST
    for _ in range(60):
        middle = math.sqrt(coldest * hottest)
        slope = ((z / middle).softmax(1) * z).sum(1) - of_label
        if slope.mean() < 0:  # the loss still falls as β grows: colder
            hottest = middle
        else:
            coldest = middle
    return math.sqrt(coldest * hottest)


def reliability(probabilities: Logits, labels: Labels, bins: int = 15) -> list[Bin]:
    """Bins of equal width in the top probability, those without images left out."""
    sure, answer = probabilities.detach().double().max(1)
    right = (answer == labels).double()
    place = (sure * bins).ceil().long().clamp(1, bins) - 1
    table = []
    for i in range(bins):
        inside = place == i
        if images := int(inside.sum()):
            table.append(Bin(i / bins, (i + 1) / bins, images, sure[inside].mean().item(), right[inside].mean().item()))
    return table


def calibration_error(probabilities: Logits, labels: Labels, bins: int = 15) -> float:
    """ECE: mean over images of |accuracy − confidence| of the bin each falls into; 0 for no images."""
    error = sum(row.images * abs(row.accuracy - row.confidence) for row in reliability(probabilities, labels, bins))
    return error / max(1, len(labels))

"""When a trial is given up: at two moments of its first task, if it is below the median of all that got there."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

SHARES = (0.25, 0.5)
"""Of the epochs of a task: when trials are compared."""

RULE = (
    "after a quarter and after half of the epochs of the first task, a trial is given up if its best validation "
    "accuracy so far, the mean over seeds, is below the median of all trials that got there, those of equal accuracy "
    "being told apart by their lowest validation loss so far; the settings as they were before the search are never "
    "given up"
)

Rank = tuple[float, float]
"""An accuracy, and for equals minus a loss."""


def rungs(epochs: int) -> list[int]:
    """After how many epochs trials are compared; one that has all but ended is left in peace."""
    return sorted({n for share in SHARES if (n := math.ceil(share * epochs)) < epochs})


def best_so_far(accuracies: Sequence[float], losses: Sequence[float], epochs: int) -> Rank:
    """The best of the first epochs; of a method without epochs, nothing that could count against it."""
    if not accuracies:
        return math.inf, math.inf
    return max(accuracies[:epochs]), -min(losses[:epochs])


def goes_on(rank: Rank, others: Sequence[Rank]) -> bool:
    """Whether a trial is at least as good as the median of all that got as far, itself among them."""
    return rank >= statistics.median_high(others)

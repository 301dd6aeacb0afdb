"""Differences between runs with the same seed: what is common to a seed, such as the order of classes, falls out."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from snv.report.student import interval, p_value
from snv.runs import Result

FEWEST = 3
"""Common seeds below which nothing is tested."""


@dataclass(frozen=True)
class Paired:
    """Mean difference over common seeds; from two on its 95 % interval, from three on p of the paired t test."""

    mean: float
    seeds: tuple[int, ...]
    interval: tuple[float, float] | None = None
    p: float | None = None


def paired(
    runs: Mapping[int, Result], reference: Mapping[int, Result], number: Callable[[Result], float | None]
) -> Paired | None:
    """The differences of a number, run minus reference, over the seeds both have; None if they share none.

    Note: the test is the two-sided paired t test, not corrected for how many comparisons a table makes.
    """
    both = {seed: (number(runs[seed]), number(reference[seed])) for seed in sorted(runs.keys() & reference.keys())}
    found = {seed: one - other for seed, (one, other) in both.items() if one is not None and other is not None}
    if not found:
        return None
    values, n = list(found.values()), len(found)
    return Paired(
        statistics.fmean(values),
        tuple(found),
        interval(values) if n > 1 else None,
        p_value(values) if n >= FEWEST else None,
    )

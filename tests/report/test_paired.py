"""Paired differences against numbers worked out by hand."""

from __future__ import annotations

import pytest
from table_records import a_result, with_final

from snv.report.paired import paired


def runs(**finals: float):
    """A run per seed, ``s3=50.0`` being seed 3 with ACC 50."""
    return {int(s[1:]): a_result(seed=int(s[1:]), accuracy=with_final(acc, acc)) for s, acc in finals.items()}


def acc(result):
    return result.record.metrics["ACC"]


def test_only_seeds_that_both_have_are_compared():
    found = paired(runs(s0=50, s1=61, s2=75), runs(s1=60, s2=73, s3=99), acc)
    assert (found.mean, found.seeds, found.p) == (1.5, (1, 2), None)
    assert found.interval == pytest.approx((1.5 - 12.7062 * 0.5, 1.5 + 12.7062 * 0.5), abs=1e-3)


def test_three_seeds_are_tested():
    found = paired(runs(s0=51, s1=62, s2=76), runs(s0=50, s1=60, s2=73), acc)  # +1, +2, +3: t = 2·√3
    assert found.mean == 2.0
    assert found.interval == pytest.approx((2 - 4.30265 / 3**0.5, 2 + 4.30265 / 3**0.5), abs=1e-4)
    assert found.p == pytest.approx(1 - 12**0.5 / 14**0.5)


def test_one_seed_has_a_difference_and_no_interval_and_none_has_nothing():
    found = paired(runs(s4=51), runs(s4=50), acc)
    assert (found.mean, found.interval, found.p) == (1.0, None, None)
    assert paired(runs(s0=51), runs(s1=50), acc) is None

"""Student's t against closed forms and the printed tables."""

from __future__ import annotations

import math

import pytest

from snv.report.student import interval, p_value, quantile, share_within

PRINTED = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 9: 2.262, 10: 2.228, 29: 2.045, 30: 2.042, 120: 1.980}
"""97.5 % quantiles as in every textbook."""


@pytest.mark.parametrize(("degrees", "t"), PRINTED.items())
def test_quantiles_are_those_of_the_tables(degrees, t):
    assert quantile(0.95, degrees) == pytest.approx(t, abs=6e-4)


@pytest.mark.parametrize("t", [0.1, 1.0, 3.7, 40.0])
def test_one_and_two_degrees_have_closed_forms(t):
    assert share_within(t, 1) == pytest.approx(2 / math.pi * math.atan(t), abs=1e-14)
    assert share_within(t, 2) == pytest.approx(t / math.sqrt(2 + t * t), abs=1e-14)


@pytest.mark.parametrize("degrees", [3, 4, 5, 8, 15])
def test_the_share_is_the_integral_of_the_density(degrees):
    n, t = 20_000, 1.7
    scale = math.gamma((degrees + 1) / 2) / (math.sqrt(degrees * math.pi) * math.gamma(degrees / 2))
    heights = [scale * (1 + ((i + 0.5) * t / n) ** 2 / degrees) ** (-(degrees + 1) / 2) for i in range(n)]
    assert share_within(t, degrees) == pytest.approx(2 * sum(heights) * t / n, abs=1e-9)


def test_the_interval_and_p_agree_on_what_is_significant():
    low, high = interval([1.0, 2.0, 3.0])
    assert (low + high) / 2 == pytest.approx(2.0)
    assert high - 2.0 == pytest.approx(4.303 / math.sqrt(3), abs=1e-3)
    assert (low > 0) == (p_value([1.0, 2.0, 3.0]) < 0.05)
    t = 2.0 / (1 / math.sqrt(3))
    assert p_value([1.0, 2.0, 3.0]) == pytest.approx(1 - t / math.sqrt(2 + t * t))


def test_equal_differences_are_certain():
    assert p_value([0.0, 0.0, 0.0]) == 1.0
    assert p_value([0.5, 0.5, 0.5]) == 0.0

"""Radii cover as often as they say, once looked at or always looked at."""

from __future__ import annotations

import math

import pytest
import torch

from snv.seeding import generator
from snv.shapley.intervals import (
    BernsteinSequence,
    asymptotic_radius,
    floored_variance,
    normal_quantile,
    t_quantile,
    t_radius,
    z_radius,
)
from snv.shapley.moments import Moments

RUNS = 1500
LOOKS = (20, 30, 50, 80, 120, 200, 300, 500, 800, 1100, 1500)
TRUTH = 0.4 * 0.05


def zero_inflated(m: int) -> torch.Tensor:
    """Marginals as accuracy gives them: 60 % exactly zero, the rest small; one column per run."""
    rng = generator(0, "zero-inflated")
    live = torch.rand(m, RUNS, generator=rng, dtype=torch.float64) < 0.4
    return torch.where(live, 0.05 + 0.1 * torch.randn(m, RUNS, generator=rng, dtype=torch.float64), 0.0)


@pytest.mark.parametrize(
    ("p", "freedom", "known"),
    [
        (0.975, 1, 12.706204736),
        (0.975, 2, 4.302652730),
        (0.95, 5, 2.015048373),
        (0.975, 29, 2.045229642),
        (0.975, 30, 2.042272456),
        (0.995, 40, 2.704459267),
        (0.975, 1000, 1.962339081),
    ],
)
def test_t_quantiles_are_those_of_the_tables(p, freedom, known):
    assert t_quantile(p, freedom) == pytest.approx(known, rel=1e-6)


def test_normal_quantiles_are_those_of_the_tables():
    assert normal_quantile(0.975) == pytest.approx(1.959963985, rel=1e-9)


def test_t_intervals_of_few_normal_observations_cover_as_promised():
    x = torch.randn(5, 20000, generator=generator(0, "normal"), dtype=torch.float64)
    moments = Moments.of(x)
    missed = moments.mean.abs() > t_radius(moments.stderr, moments.count, 0.95)
    assert 0.045 < missed.double().mean() < 0.055


def test_intervals_are_infinite_before_the_second_observation():
    one = Moments.of(torch.ones(1, 3, dtype=torch.float64))
    assert torch.isinf(t_radius(one.stderr, one.count, 0.95)).all()
    assert torch.isinf(asymptotic_radius(one.variance, one.count, 0.05, 200.0)).all()


def test_repeated_looks_break_pointwise_intervals_but_not_time_uniform_ones():
    x, missed = zero_inflated(LOOKS[-1]), {"pointwise": torch.zeros(RUNS, dtype=torch.bool)}
    missed["uniform"] = missed["pointwise"].clone()
    for look in LOOKS:
        moments = Moments.of(x[:look])
        off = (moments.mean - TRUTH).abs()
        missed["pointwise"] |= off > z_radius(moments, 0.95)
        missed["uniform"] |= off > asymptotic_radius(moments.variance, moments.count, 0.05, 200.0)
    assert missed["pointwise"].double().mean() > 0.15
    assert missed["uniform"].double().mean() <= 0.05


def test_empirical_bernstein_sequences_hold_at_every_look_and_are_wider():
    x = ((zero_inflated(400) + 1) / 2).clamp(0, 1)  # into [0, 1]; the clamp moves nothing that was drawn
    sequence, missed = BernsteinSequence.none(RUNS, 0.05), torch.zeros(RUNS, dtype=torch.bool)
    for row in x:
        sequence = sequence.add(row)
        missed |= (sequence.centre - (TRUTH + 1) / 2).abs() > sequence.radius
    assert missed.double().mean() <= 0.05
    moments = Moments.of(x)
    assert (sequence.radius > asymptotic_radius(moments.variance, moments.count, 0.05, 200.0)).all()


def test_a_bernstein_sequence_only_moves_for_the_players_observed():
    some = torch.tensor([1])
    sequence = BernsteinSequence.none(3, 0.05).add(torch.tensor([0.25], dtype=torch.float64), some)
    assert sequence.count.tolist() == [0, 1, 0]
    assert sequence.radius.isinf().tolist() == [True, False, True]
    again = BernsteinSequence.from_state(sequence.state())
    assert torch.equal(again.spread, sequence.spread)


def test_a_player_that_showed_only_zeros_is_not_taken_for_certain():
    x = torch.zeros(20, 4, dtype=torch.float64)
    x[:, 1:] = torch.randn(20, 3, generator=generator(0, "x"), dtype=torch.float64)
    moments = Moments.of(x)
    floored = floored_variance(moments, weight=5.0)
    assert moments.variance[0] == 0
    assert floored[0] > 0
    assert (floored >= moments.variance).all()


def test_radii_shrink_like_one_over_the_root_of_n_up_to_a_logarithm():
    count = torch.tensor([100, 10000])
    small, large = asymptotic_radius(torch.ones(2, dtype=torch.float64), count, 0.05, 200.0).tolist()
    assert 1 < small / large < 10
    assert small / large > 10 / math.log(10000)

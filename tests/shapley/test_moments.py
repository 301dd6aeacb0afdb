"""Count, mean and variance, however the observations arrive."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from snv.seeding import generator
from snv.shapley.moments import Halves, Moments


def observations(m: int, n: int = 4, seed: int = 0) -> torch.Tensor:
    return 1e3 + torch.randn(m, n, generator=generator(seed, "x"), dtype=torch.float64)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 7), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_moments_merge_in_any_order(sizes, shuffler):
    whole = observations(sum(sizes) + 1)
    parts = [Moments.none(4).extend(part) for part in whole.split([*sizes, 1])]
    shuffler.shuffle(parts)
    merged = Moments.none(4)
    for part in parts:
        merged = merged.merge(part)
    assert merged.count.tolist() == [len(whole)] * 4
    torch.testing.assert_close(merged.mean, whole.mean(0))
    torch.testing.assert_close(merged.m2, ((whole - whole.mean(0)) ** 2).sum(0))


def test_observations_added_one_by_one_or_together_give_the_same_bits():
    whole = observations(9)
    together, one_by_one = Halves.none(4).extend(whole), Halves.none(4)
    for x in whole:
        one_by_one = one_by_one.add(x)
    in_parts = Halves.none(4).extend(whole[:4]).extend(whole[4:])
    for other in (one_by_one, in_parts):
        assert torch.equal(together.means, other.means)
        assert torch.equal(together.all.m2, other.all.m2)


def test_only_the_observed_players_change():
    some = torch.tensor([0, 2])
    moments = Moments.none(4).extend(observations(5)[:, some], some)
    assert moments.count.tolist() == [5, 0, 5, 0]
    assert moments.observed_mean.isnan().tolist() == [False, True, False, True]
    assert moments.stderr[1] == torch.inf
    torch.testing.assert_close(moments.variance[some], observations(5)[:, some].var(0))


def test_one_observation_says_nothing_about_the_spread():
    assert Moments.of(observations(1)).stderr.tolist() == [torch.inf] * 4


def test_halves_hold_every_other_draw_and_their_state_restores_them():
    whole = observations(7)
    halves = Halves.none(4).extend(whole[:3]).extend(whole[3:])
    torch.testing.assert_close(halves.means[0], whole[0::2].mean(0))
    torch.testing.assert_close(halves.means[1], whole[1::2].mean(0))
    again = Halves.from_state(halves.state())
    assert again.draws == 7
    assert torch.equal(again.all.mean, halves.all.mean)

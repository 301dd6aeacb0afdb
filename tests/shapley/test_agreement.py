"""Measures of agreement, on cases one can work out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from snv.errors import UserError
from snv.seeding import generator
from snv.shapley.agreement import (
    how_many,
    ranking,
    ranks,
    relative_error,
    spearman,
    split_half_overlap,
    top_k,
    top_k_precision,
)


def vector(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def test_the_top_k_is_signed_stable_and_puts_the_unknown_last():
    assert top_k(vector(-5, 1, math.nan, 1, 2), 3).tolist() == [4, 1, 3]
    assert ranking(vector(-5, 1, math.nan, 1, 2)).tolist() == [4, 1, 3, 0, 2]


def test_a_top_k_of_unknown_values_is_refused():
    with pytest.raises(UserError, match="The top 3 of 4 players were asked for, but only 2 have a value"):
        top_k(vector(math.nan, 1, math.nan, 2), 3)


def test_halves_that_do_not_know_k_players_have_no_overlap():
    assert math.isnan(split_half_overlap(torch.stack([vector(1, 2, 3), vector(math.nan, math.nan, 1)]), 2))


@pytest.mark.parametrize(("k", "n", "count"), [(3, 10, 3), (0.1, 4800, 480), (0.07, 100, 7), (0.01, 8, 1), (1.0, 5, 5)])
def test_k_is_a_number_or_a_share(k, n, count):
    assert how_many(k, n) == count


@pytest.mark.parametrize("k", [0, 11, -1, 0.0, 1.5, math.nan, True])
def test_a_senseless_k_is_answered_with_what_would_make_sense(k):
    with pytest.raises(UserError, match="share"):
        how_many(k, 10)


def test_precision_counts_places():
    truth, estimate = vector(4, 3, 2, 1), vector(4, 1, 3, 2)
    assert top_k_precision(estimate, truth, 2) == 0.5
    assert split_half_overlap(torch.stack([estimate, truth]), 2) == 0.5


def test_tied_values_share_their_rank():
    assert ranks(vector(10, 20, 20, 30)).tolist() == [0, 1.5, 1.5, 3]


def test_the_rank_correlation_is_one_for_any_increasing_map_and_minus_one_for_the_reverse():
    x = torch.randn(30, generator=generator(0, "x"), dtype=torch.float64)
    assert spearman(x, x.exp()) == pytest.approx(1)
    assert spearman(x, -x) == pytest.approx(-1)


def test_spearman_of_a_small_case_is_the_textbook_one():
    assert spearman(vector(1, 2, 3, 4, 5), vector(5, 6, 7, 8, 7)) == pytest.approx(0.8207826816681233)


def test_relative_error_is_one_for_giving_everyone_the_mean():
    truth = vector(1, 2, 3, 6)
    assert relative_error(truth.mean().expand(4), truth) == pytest.approx(1)
    assert relative_error(truth, truth) == 0

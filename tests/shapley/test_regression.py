"""The least-squares estimator: exact where it can be, consistent elsewhere, and honest about its error."""

from __future__ import annotations

import pytest
import torch

from snv.errors import UserError
from snv.shapley.agreement import relative_error
from snv.shapley.budget import Budget
from snv.shapley.known_games import KNOWN_GAMES, Additive, examples, saturating, voting
from snv.shapley.regression import RegressionSettings, coalitions_of_draws, regression


def run(game, seed: int = 0, **settings):
    return regression(game, RegressionSettings(**settings), seed=seed)


@pytest.mark.parametrize("name", ["additive", "quadratic"])
def test_pairs_are_exact_where_interactions_are_at_most_pairwise(name):
    game = KNOWN_GAMES[name]()
    torch.testing.assert_close(run(game, coalitions=60).values, game.shapley)


@pytest.mark.parametrize("name", KNOWN_GAMES)
def test_values_sum_to_what_everyone_together_gains_however_few_the_coalitions(name):
    for coalitions in (2, 40, 4000):
        found = run(KNOWN_GAMES[name](), coalitions=coalitions)
        assert float(found.values.sum()) == pytest.approx(found.v_all - found.v_none, abs=1e-9)


@pytest.mark.parametrize("name", KNOWN_GAMES)
def test_many_coalitions_give_the_shapley_values(name):
    game = KNOWN_GAMES[name]()
    found = run(game, coalitions=6000)
    torch.testing.assert_close(found.values, game.shapley, atol=0.1 * float(game.shapley.abs().max()), rtol=0)


def test_a_minibatch_per_pair_gives_them_too_and_costs_its_share():
    game = examples()
    found = run(game, coalitions=2000, minibatch=3)
    assert relative_error(found.values, game.shapley) < 0.1
    assert found.evaluations == pytest.approx(2 + 2000 * 3 / 12)


def test_95_percent_intervals_cover_about_that_share():
    truth, hits = saturating().shapley, []
    for seed in range(60):
        low, high = run(saturating(), seed, coalitions=160).interval(0.95)
        hits.append(((low <= truth) & (truth <= high)).double())
    assert 0.91 <= float(torch.stack(hits).mean()) <= 0.98


def test_a_continued_run_equals_a_longer_one():
    first = run(voting(), coalitions=30)
    both = regression(voting(), RegressionSettings(coalitions=90), resume=first)
    assert torch.equal(both.values, run(voting(), coalitions=90).values)
    assert both.evaluations == 92


def test_a_budget_ends_it_with_the_estimate_so_far():
    found = regression(voting(), RegressionSettings(coalitions=10_000), budget=Budget(max_evaluations=101))
    assert found.evaluations <= 101
    assert found.stopped == "max_evaluations reached"
    assert int(found.counts[0]) == 49


def test_sizes_are_spread_evenly_and_neither_empty_nor_full():
    sizes = coalitions_of_draws(9, 0, range(800)).sum(1)
    share = torch.bincount(sizes, minlength=10)[1:9] / 800
    torch.testing.assert_close(share, torch.full((8,), 1 / 8), atol=0.01, rtol=0)


def test_too_many_players_are_refused_before_anything_is_spent():
    game = Additive(torch.zeros(2001, dtype=torch.float64))
    with pytest.raises(UserError, match="2 to 2000 players"):
        run(game, k=1)
    assert game.evaluations == 0

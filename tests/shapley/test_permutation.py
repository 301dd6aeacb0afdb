"""Whole orders are the paper's Monte Carlo; orders that end early cost less and stay unbiased."""

from __future__ import annotations

import pytest
import torch
from trials import wide, within

from snv.shapley.estimate import estimate, forecast
from snv.shapley.known_games import KNOWN_GAMES, quadratic
from snv.shapley.permutation import order_of_draw


def permutation_values(game, n_permutations, seed):
    """Eq. 10 one coalition at a time, as one would write it on paper."""
    total = torch.zeros(game.n, dtype=torch.float64)
    for draw in range(n_permutations):
        coalition = torch.zeros(game.n, dtype=torch.bool)
        before = game(coalition)
        for i in order_of_draw(game.n, seed, draw).tolist():
            coalition[i] = True
            after = game(coalition)
            total[i] += after - before  # V(S ∪ {i}) − V(S), Eq. 11
            before = after
    return total / n_permutations


@pytest.mark.parametrize("name", KNOWN_GAMES)
def test_batches_of_prefixes_equal_one_coalition_at_a_time(name):
    game = KNOWN_GAMES[name]()
    plain = permutation_values(game, n_permutations=5, seed=3)
    for chunk in (1, 3, 256):
        torch.testing.assert_close(estimate(game, "montecarlo", permutations=5, chunk=chunk, seed=3).values, plain)


def test_antithetic_orders_are_exact_for_pairwise_interactions():
    found = estimate(quadratic(), "montecarlo", permutations=2, antithetic=True)
    torch.testing.assert_close(found.values, quadratic().shapley)


def test_removal_orders_that_stop_early_cost_less_and_roulette_keeps_them_unbiased():
    game, whole = wide(), forecast(wide(), "truncated", permutations=200)
    cut = estimate(game, "truncated", permutations=200, floor=0.05, proceed=0.0, chunk=4)
    assert cut.evaluations < 0.75 * whole
    missing = cut.v_all - cut.v_none - float(cut.values.sum())
    assert 0 < missing <= 0.05 * (cut.v_all - cut.v_none)
    fair = estimate(wide(), "truncated", permutations=200, floor=0.05, proceed=0.3, chunk=4)
    assert cut.evaluations < fair.evaluations < whole
    assert float(((fair.values - game.shapley) / fair.stderr).abs().max()) < within(40)


def test_truncation_does_not_depend_on_the_chunk():
    found = [estimate(wide(), "truncated", permutations=5, chunk=chunk).values for chunk in (1, 7, 64)]
    torch.testing.assert_close(found[0], found[1])
    torch.testing.assert_close(found[0], found[2])

"""The closed forms agree with brute force, so they may judge the estimators."""

from __future__ import annotations

import pytest
import torch

from snv.shapley.estimate import estimate
from snv.shapley.known_games import KNOWN_GAMES, examples, majority, unanimity, weight_game_values

DIFFERENTIABLE = [name for name, make in KNOWN_GAMES.items() if make().differentiable]


@pytest.mark.parametrize("make", KNOWN_GAMES.values(), ids=KNOWN_GAMES)
def test_closed_forms_equal_enumeration(make):
    game = make()
    torch.testing.assert_close(game.shapley, estimate(game, "exact").values)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_are_the_slopes_of_the_payoff(name):
    game = KNOWN_GAMES[name]()
    gates = torch.rand(3, game.n, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    slopes, payoffs = game.gradient(gates)
    step = 1e-6
    for i in range(game.n):
        nudge = torch.zeros(game.n, dtype=torch.float64)
        nudge[i] = step
        rise = (game.gradient(gates + nudge)[1] - game.gradient(gates - nudge)[1]) / (2 * step)
        torch.testing.assert_close(slopes[:, i], rise, atol=1e-7, rtol=1e-6)
    corners = (gates > 0.5).double()
    torch.testing.assert_close(game.gradient(corners)[1], game.values(corners.bool()))
    assert payoffs.shape == (3,)


@pytest.mark.parametrize("make", KNOWN_GAMES.values(), ids=KNOWN_GAMES)
def test_every_evaluation_is_counted(make):
    game = make()
    game.values(torch.zeros(5, game.n, dtype=torch.bool))
    assert game.evaluations == 5


def test_a_minibatch_costs_its_share_and_averages_to_the_whole():
    game = examples()
    coalitions = torch.eye(game.n, dtype=torch.bool)
    parts = [game.values(coalitions, rows) for rows in torch.arange(12).split(3)]
    assert game.evaluations == pytest.approx(game.n)
    torch.testing.assert_close(torch.stack(parts).mean(0), game.values(coalitions))


def test_symmetric_voters_share_the_power_equally():
    torch.testing.assert_close(majority(7).shapley, torch.full((7,), 1 / 7, dtype=torch.float64))


def test_the_weight_game_is_solved_for_a_hundred_players():
    weights = [1 + i % 9 for i in range(100)]
    values = weight_game_values(weights, lambda w: torch.sigmoid((w - 250) / 50))
    ends = torch.sigmoid((torch.tensor([0.0, sum(weights)], dtype=torch.float64) - 250) / 50)
    torch.testing.assert_close(values.sum(), ends[1] - ends[0])
    torch.testing.assert_close(values, values[torch.tensor(weights) - 1])  # equal weight, equal value
    assert (values[:9].diff() > 0).all()


def test_a_player_in_no_term_is_worth_nothing():
    assert unanimity().shapley[0] == 0

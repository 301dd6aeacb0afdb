"""Budgets are kept, stops are honest, and the bill is known before it is paid."""

from __future__ import annotations

import pytest
import torch
from trials import SETTINGS

from snv.errors import UserError
from snv.shapley.budget import Budget, rows_of_draw
from snv.shapley.estimate import ESTIMATORS, estimate, forecast
from snv.shapley.known_games import KNOWN_GAMES, examples, saturating

SAMPLING = [method for method in ESTIMATORS if method != "exact"]


@pytest.mark.parametrize("method", SETTINGS)
@pytest.mark.parametrize("make", [saturating, examples], ids=["saturating", "examples"])
def test_a_run_costs_no_more_than_its_forecast(method, make):
    bill = forecast(make(), method, **SETTINGS[method])
    game = make()
    found = estimate(game, method, **SETTINGS[method])
    assert found.evaluations == pytest.approx(game.evaluations)
    assert found.evaluations <= bill * (1 + 1e-9)


def test_the_forecasts_of_plain_sums_are_exact():
    for method, settings in [("montecarlo", {"minibatch": 4}), ("gradient", {"minibatch": 4}), ("exact", {})]:
        bill = forecast(examples(), method, **settings)
        assert estimate(examples(), method, **settings).evaluations == pytest.approx(bill)


@pytest.mark.parametrize("method", SAMPLING)
@pytest.mark.parametrize("limit", [20, 60, 150, 400])
def test_max_evaluations_is_never_exceeded(method, limit):
    game = saturating()
    found = estimate(game, method, budget=Budget(max_evaluations=limit), **SETTINGS[method])
    assert game.evaluations <= limit
    assert "max_evaluations reached" in found.stopped or game.evaluations < limit
    assert found.certified == (found.stopped == "certified")


def test_a_budget_too_small_for_any_answer_is_refused_before_it_is_spent():
    game = saturating()
    for method in ESTIMATORS:
        with pytest.raises(UserError, match="max_evaluations = 3"):
            estimate(game, method, budget=Budget(max_evaluations=3))
    assert game.evaluations == 0


def test_senseless_limits_are_refused():
    with pytest.raises(UserError, match="max_evaluations"):
        Budget(max_evaluations=0)
    with pytest.raises(UserError, match="max_seconds"):
        Budget(max_seconds=-1.0)


def test_minibatches_pass_through_all_examples_before_any_comes_again():
    game = examples()
    turn = torch.cat([rows_of_draw(game, 4, 0, draw) for draw in range(3)])
    assert turn.sort().values.tolist() == list(range(12))
    assert rows_of_draw(game, 12, 0, 0) is None
    assert rows_of_draw(KNOWN_GAMES["voting"](), 4, 0, 0) is None

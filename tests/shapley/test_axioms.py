"""Shapley's axioms, for every estimator that promises them, on every game whose values are known."""

from __future__ import annotations

import pytest
import torch

from snv.shapley.estimate import ESTIMATORS, estimate
from snv.shapley.known_games import KNOWN_GAMES, KnownGame

QUICK = {
    "exact": {},
    "montecarlo": {"permutations": 6},
    "truncated": {"permutations": 6},
    "tmab": {"permutations": 8, "burn_in": 4},
    "regression": {"coalitions": 60},
    "gradient": {"draws": 8},
    "hybrid": {"draws": 8, "pilot_coalitions": 8, "burn_in": 3, "rounds": 3, "fresh": 3},
}
WITH_NULL_PLAYER_0 = ["additive", "quadratic", "unanimity", "airport", "voting", "saturating", "examples"]
WITH_TWINS_1_AND_2 = [*WITH_NULL_PLAYER_0, "majority"]


class SumGame(KnownGame):
    """V + W, so φ(V) + φ(W): linearity."""

    def __init__(self, first, second):
        self.n, self.first, self.second = first.n, first, second
        self.differentiable = first.differentiable and second.differentiable
        self.shapley = first.shapley + second.shapley

    def payoff(self, gates):
        return self.first.payoff(gates) + self.second.payoff(gates)


def cases(axiom: str | None = None, games: list[str] | None = None) -> list:
    return [
        pytest.param(method, game, id=f"{method}-{game}")
        for method, entry in ESTIMATORS.items()
        if axiom is None or axiom in entry.axioms
        for game in games or KNOWN_GAMES
        if KNOWN_GAMES[game]().differentiable or not entry.needs_gradient
    ]


def test_every_listed_estimator_is_tried_here():
    assert QUICK.keys() == ESTIMATORS.keys()


@pytest.mark.parametrize(("method", "name"), cases("efficiency"))
def test_values_share_out_exactly_what_everyone_together_gains(method, name):
    game = KNOWN_GAMES[name]()
    found = estimate(game, method, **QUICK[method])
    gain = game(torch.ones(game.n, dtype=torch.bool)) - game(torch.zeros(game.n, dtype=torch.bool))
    assert float(found.values.sum()) == pytest.approx(gain)
    assert found.efficiency_ratio == pytest.approx(1)


@pytest.mark.parametrize(("method", "name"), cases("null player", WITH_NULL_PLAYER_0))
def test_a_player_that_changes_nothing_is_worth_nothing(method, name):
    found = estimate(KNOWN_GAMES[name](), method, **QUICK[method])
    assert float(found.values[0]) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("name", [name for name in WITH_NULL_PLAYER_0 if KNOWN_GAMES[name]().differentiable])
def test_a_null_player_that_hybrid_flipped_is_worth_nothing(name):
    found = estimate(KNOWN_GAMES[name](), "hybrid", **QUICK["hybrid"])
    assert float(found.unbiased[0]) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(("method", "name"), cases("symmetry", WITH_TWINS_1_AND_2))
def test_interchangeable_players_are_worth_the_same(method, name):
    found = estimate(KNOWN_GAMES[name](), method, **QUICK[method])
    assert float(found.values[1]) == pytest.approx(float(found.values[2]))


@pytest.mark.parametrize(("method", "name"), cases("linearity"))
def test_the_values_of_a_sum_of_games_are_the_sums_of_their_values(method, name):
    first, second = KNOWN_GAMES[name](), KNOWN_GAMES[name]()
    if name == "examples":
        pytest.skip("a sum of games takes no minibatches")
    both = estimate(SumGame(first, second), method, **QUICK[method]).values
    apart = estimate(first, method, **QUICK[method]).values + estimate(second, method, **QUICK[method]).values
    torch.testing.assert_close(both, apart)


@pytest.mark.parametrize("method", [m for m, entry in ESTIMATORS.items() if "linearity" in entry.axioms])
def test_two_different_games_add_up_too(method):
    games = KNOWN_GAMES["quadratic"](), KNOWN_GAMES["saturating"]()
    both = estimate(SumGame(*games), method, **QUICK[method]).values
    torch.testing.assert_close(both, sum(estimate(game, method, **QUICK[method]).values for game in games))

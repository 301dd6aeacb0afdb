"""Enumeration is the definition: it equals brute force over all orders."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from trials import wide

from snv.errors import UserError
from snv.shapley.estimate import estimate
from snv.shapley.known_games import RandomGame, airport, examples, majority, quadratic, saturating, voting


def over_all_orders(game):
    """The definition itself: mean marginal contribution over all n! orders, one coalition at a time."""
    values, seen = torch.zeros(game.n, dtype=torch.float64), {}

    def payoff(members):
        if members not in seen:
            seen[members] = game(torch.tensor([i in members for i in range(game.n)]))
        return seen[members]

    for order in itertools.permutations(range(game.n)):
        for place, player in enumerate(order):
            before = frozenset(order[:place])
            values[player] += payoff(before | {player}) - payoff(before)
    return values / math.factorial(game.n)


SMALL = {
    "quadratic": lambda: quadratic(6),
    "airport": lambda: airport(6),
    "majority": lambda: majority(5),
    "voting": lambda: voting((0, 1, 1, 2, 3, 5)),
    "saturating": lambda: saturating((0, 1, 1, 2, 3, 5)),
    "random": lambda: RandomGame(6, seed=3),
    "examples": lambda: examples(5, 4),
}


@pytest.mark.parametrize("make", SMALL.values(), ids=SMALL)
def test_enumeration_equals_brute_force_over_all_orders(make):
    game = make()
    brute = over_all_orders(game)
    torch.testing.assert_close(estimate(game, "exact", k=1).values, brute)
    torch.testing.assert_close(game.shapley, brute)


def test_exact_refuses_more_players_than_it_can_enumerate():
    with pytest.raises(UserError, match="up to 16 players"):
        estimate(wide(), "exact")

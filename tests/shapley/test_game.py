"""What holds for every game: a coalition is worth its V, and flips are differences of two of them."""

from __future__ import annotations

import pytest
import torch

from snv.shapley.game import Game
from snv.shapley.known_games import examples, voting


def test_flips_compare_each_player_in_and_out_of_the_same_coalition():
    game, coalition = examples(), torch.arange(8) % 3 == 0
    players, rows = torch.tensor([5, 0, 3]), torch.tensor([1, 7, 11])
    for i, flip in zip(players.tolist(), game.flips(coalition, players, rows).tolist(), strict=True):
        present, absent = coalition.clone(), coalition.clone()
        present[i], absent[i] = True, False
        both = game.values(torch.stack([present, absent]), rows)
        assert flip == pytest.approx(float(both[0] - both[1]))


def test_a_call_is_the_value_of_one_coalition():
    coalition = torch.arange(8) > 3
    assert voting()(coalition) == float(voting().values(coalition[None])[0])


def test_a_game_without_slopes_says_so():
    with pytest.raises(TypeError, match="WeightGame has no gradient"):
        voting().gradient(torch.rand(1, 8, dtype=torch.float64))
    assert not Game.differentiable

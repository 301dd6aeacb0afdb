"""A call of a game travels as a message and comes back with the bits it would have had here."""

from __future__ import annotations

import pickle

import pytest
import torch
from crews import network_game

from snv.errors import UserError
from snv.shapley.game import Game
from snv.shapley.known_games import saturating
from snv.shapley.questions import Question, Tally, answer


def there_and_back(message):
    return pickle.loads(pickle.dumps(message))


def test_a_tally_is_the_sum_and_knows_its_parts_in_order():
    tally, total, costs = Tally(), 0.0, [0.1, 0.7, 1 / 3, 1e-9]
    for cost in costs:
        tally += cost
        total += cost
    assert tally == total
    assert tally.parts == tuple(costs)


def test_a_question_is_the_same_only_with_the_same_method_and_tensors():
    coalitions, rows = torch.rand(3, 8) > 0.5, torch.tensor([1, 5])
    question = Question("values", (coalitions, rows))
    assert question.is_same(Question("values", (coalitions.clone(), rows.clone())))
    assert not question.is_same(Question("values", (coalitions, None)))
    assert not question.is_same(Question("values", (~coalitions, rows)))
    assert not question.is_same(Question("values", (coalitions[:2], rows)))
    assert not question.is_same(Question("gradient", (coalitions, rows)))


@pytest.mark.parametrize("asked", ["values", "flips", "gradient"])
def test_question_and_answer_keep_every_bit_on_the_way(asked):
    game, rows = network_game(), torch.tensor([3, 1, 30])
    some = torch.rand(4, game.n, dtype=torch.float64)
    about = {
        "values": (some > 0.5, rows),
        "flips": (some[0] > 0.5, torch.tensor([2, 8, 0]), None),
        "gradient": (some[:1].expand(2, game.n), rows),
    }[asked]
    direct = getattr(game, asked)(*about)
    spent, game.evaluations = game.evaluations, 0.0
    told = there_and_back(answer(game, there_and_back(Question(asked, about))))
    for mine, theirs in zip(direct if isinstance(direct, tuple) else (direct,), told.found, strict=True):
        assert torch.equal(mine, theirs)
        assert mine.dtype == theirs.dtype
    counted = 0.0
    for cost in told.costs:
        counted += cost
    assert counted == spent


class Broken(Game):
    n = 3

    def __init__(self, error: Exception) -> None:
        self.error = error

    def values(self, coalitions, rows=None):
        raise self.error


def test_what_goes_wrong_is_an_answer_too():
    question = Question("values", (torch.ones(1, 3, dtype=torch.bool), None))
    mistake = there_and_back(answer(Broken(UserError("Do something else.")), question)).error
    assert type(mistake) is UserError
    assert str(mistake) == "Do something else."
    defect = there_and_back(answer(Broken(ZeroDivisionError("by nought")), question)).error
    assert "by nought" in str(defect)
    assert "in values" in str(defect)


def test_a_game_that_counts_in_its_own_way_is_counted_right():
    told = answer(saturating(), Question("values", (torch.ones(5, 8, dtype=torch.bool), None)))
    assert told.costs == (5.0,)

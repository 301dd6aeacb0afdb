"""However many workers answer, and in whichever order: the same questions count, and the same bits come out."""

from __future__ import annotations

import itertools

import pytest
import torch
from crews import SOON, Here, alone, assert_same, network_game
from trials import FROZEN, SETTINGS

from snv.errors import UserError
from snv.shapley.budget import Budget, Settings
from snv.shapley.estimate import ESTIMATORS
from snv.shapley.known_games import examples, saturating
from snv.shapley.moments import Halves
from snv.shapley.sampling import Estimation
from snv.shapley.shared import SharedGame


def by(n: int, game, method: str, **call):
    """An estimate with ``n`` workers, and what they were asked."""
    crew = Here(game(), n)
    function, own = ESTIMATORS[method].function, ESTIMATORS[method].settings
    names = {"seed", "budget", "progress", "resume", "candidates"}
    settings = own(**{name: value for name, value in call.items() if name not in names})
    counted = SharedGame(game(), crew)
    return function(counted, settings, **{name: call[name] for name in names & set(call)}), crew


def here(game, method: str, **call):
    from snv.shapley.estimate import estimate

    return estimate(game(), method, **call)


@pytest.fixture(scope="module")
def found():
    return alone(network_game)


@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize("method", ESTIMATORS)
def test_the_values_of_a_network_are_the_same_bits_for_any_number_of_workers(found, method, n):
    assert_same(by(n, network_game, method, seed=5, **SOON[method])[0], found[method])


@pytest.mark.parametrize("game", [saturating, examples])
@pytest.mark.parametrize("method", ESTIMATORS)
def test_known_games_too_and_their_stopping_decisions(method, game):
    settings = SETTINGS[method] | ({"eps": 2.0} if method == "tmab" else {})
    assert_same(by(3, game, method, seed=1, **settings)[0], here(game, method, seed=1, **settings))


@pytest.mark.parametrize("method", ["tmab", "hybrid"])
def test_candidates_and_a_run_that_is_continued(method):
    settings = SETTINGS[method] | {"k": 2, "candidates": ~FROZEN}
    short = settings | ({"permutations": 35} if method == "tmab" else {"rounds": 4})
    half, _ = by(2, saturating, method, **short)
    assert_same(half, here(saturating, method, **short))
    whole, _ = by(4, saturating, method, resume=half, **settings)
    assert_same(whole, here(saturating, method, resume=half, **settings))


@pytest.mark.parametrize("method", [method for method in ESTIMATORS if method != "exact"])
def test_a_budget_ends_where_it_would_end_without_workers(method):
    budget = Budget(max_evaluations=150)
    mine, theirs = (make(method=method, budget=budget, **SETTINGS[method]) for make in (of_two, of_none))
    assert_same(mine, theirs)


def of_two(**call):
    return by(2, saturating, call.pop("method"), **call)[0]


def of_none(**call):
    return here(saturating, call.pop("method"), **call)


@pytest.mark.parametrize("method", ["montecarlo", "regression", "gradient", "truncated"])
def test_draws_that_do_not_depend_on_each_other_are_asked_for_once(method):
    _, one = by(1, network_game, method, **SOON[method])
    _, four = by(4, network_game, method, **SOON[method])
    assert len(one.asked) == len(four.asked)


def test_a_bandit_asks_anew_where_it_would_now_ask_something_else():
    settings = SETTINGS["tmab"] | {"permutations": 40}
    found, crew = by(4, saturating, "tmab", **settings)
    alone, _ = by(1, saturating, "tmab", **settings)
    assert_same(found, alone)
    again = sum(one.is_same(other) for one, other in itertools.combinations(crew.asked, 2))
    assert again < len(crew.asked) / 2, "most answers that were given ahead are used"


class Watched(Here):
    """Notes how many questions are out whenever it is asked for news."""

    def news(self):
        self.most = max(getattr(self, "most", 0), len(self.has))
        return super().news()


def test_all_workers_are_kept_busy():
    crew = Watched(network_game(), 4)
    ESTIMATORS["gradient"].function(SharedGame(network_game(), crew), ESTIMATORS["gradient"].settings())
    assert crew.most == crew.ahead == 8


def test_an_error_is_raised_when_its_draw_has_its_turn_and_not_before():
    def draw(numbers, sample):
        if numbers[0] == 3:
            raise UserError("The fourth draw is bad.")
        return game.values(torch.ones(1, game.n, dtype=torch.bool)).expand(1, game.n)

    game = SharedGame(saturating(), Here(saturating(), 4))
    run = Estimation("any", game, Settings())
    assert run.sample("some", Halves.none(game.n), 3, draw, cost=1).draws == 3
    with pytest.raises(UserError, match="fourth"):
        run.sample("all", Halves.none(game.n), 9, draw, cost=1)


def test_without_workers_a_game_makes_the_draw_whose_turn_it_is_and_no_other():
    made = []
    saturating().drawn(made.append, range(2), [range(2, 4)])
    assert made == [range(2)]

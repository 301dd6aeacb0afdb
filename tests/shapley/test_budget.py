"""Budgets are kept, stops are honest, and the bill is known before it is paid."""

from __future__ import annotations

import itertools

import pytest
import torch

from snv.errors import UserError
from snv.shapley.budget import Budget, rows_of_draw
from snv.shapley.estimate import ESTIMATORS, estimate, forecast
from snv.shapley.known_games import KNOWN_GAMES, WeightGame, examples, saturating

LEAN = {"pilot_coalitions": 8, "burn_in": 2, "rounds": 8, "fresh": 3, "draws": 8}
SETTINGS = {
    "exact": {},
    "montecarlo": {"permutations": 40},
    "truncated": {"permutations": 40},
    "tmab": {"permutations": 60, "eps": 0.01},
    "regression": {"coalitions": 400},
    "gradient": {"draws": 40},
    "hybrid": {**LEAN, "eps": 0.001},
}
CHUNK = {
    "exact": {"chunk": 16},
    "montecarlo": {"chunk": 8},
    "regression": {"chunk": 4},
}  # so small that a run takes many calls
SAMPLING = [method for method in ESTIMATORS if method != "exact"]


class Interrupting(WeightGame):
    """Ctrl-C arrives while the game is at work."""

    def __init__(self, after: int) -> None:
        super().__init__((0, 2, 2, 3, 5, 7, 9, 12), lambda weight: torch.sigmoid((weight - 20) / 6), smooth=True)
        self.left = after

    def payoff(self, gates):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return super().payoff(gates)


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


@pytest.mark.parametrize("method", SAMPLING)
def test_max_seconds_ends_with_the_estimate_so_far(method):
    ticks = itertools.count()
    budget = Budget(max_seconds=15, clock=lambda: float(next(ticks)))  # every look at the clock takes a second
    found = estimate(saturating(), method, budget=budget, **SETTINGS[method], **CHUNK.get(method, {}))
    assert "max_seconds reached" in found.stopped
    assert not found.values.isnan().any()
    assert not found.certified


@pytest.mark.parametrize("method", ESTIMATORS)
def test_ctrl_c_returns_the_estimate_so_far_and_it_can_be_continued(method):
    after = 21 if method == "hybrid" else 6
    chunk = CHUNK.get(method, {})
    found = estimate(Interrupting(after), method, **SETTINGS[method], **chunk)
    assert found.stopped.startswith("interrupted")
    assert not found.certified
    continued = estimate(Interrupting(10**9), method, resume=found, **SETTINGS[method], **chunk)
    whole = estimate(Interrupting(10**9), method, **SETTINGS[method], **chunk)
    torch.testing.assert_close(continued.values, whole.values, rtol=0, atol=0)


def test_the_caller_may_stop_at_any_time():
    answers = iter([False] * 5)
    budget = Budget(stop=lambda: next(answers, True))
    found = estimate(saturating(), "truncated", permutations=100, budget=budget)
    assert found.stopped == "stopped by the caller"
    assert 0 < found.counts.min() < 5


@pytest.mark.parametrize("method", ESTIMATORS)
def test_progress_is_reported_up_to_the_total(method):
    seen: list[tuple[str, float, float]] = []
    settings = {"eps": 1000.0} if method == "tmab" else {}
    estimate(saturating(), method, progress=lambda *step: seen.append(step), **{**SETTINGS[method], **settings})
    assert all(0 < done <= total for _, done, total in seen)
    by_phase = {phase: [done for p, done, _ in seen if p == phase] for phase, _, _ in seen}
    assert all(steps == sorted(steps) for steps in by_phase.values())


@pytest.mark.parametrize("method", ESTIMATORS)
def test_seconds_are_kept_by_phase(method):
    found = estimate(saturating(), method, **SETTINGS[method])
    assert found.seconds
    assert all(s >= 0 for s in found.seconds.values())
    assert method != "hybrid" or list(found.seconds) == ["gradients", "pilot", "rounds", "fresh"]


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

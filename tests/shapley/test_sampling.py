"""The one loop of all estimators: it pays before it draws, reports what it did, and stops when it is told to."""

from __future__ import annotations

import itertools

import pytest
import torch
from trials import SETTINGS

from snv.errors import UserError
from snv.shapley.budget import Budget, Settings
from snv.shapley.estimate import ESTIMATORS, estimate
from snv.shapley.known_games import KNOWN_GAMES, WeightGame, saturating
from snv.shapley.moments import Observations
from snv.shapley.sampling import Estimation

CHUNK = {
    "exact": {"chunk": 16},
    "montecarlo": {"chunk": 8},
    "regression": {"chunk": 4},
}  # so small that a run takes many calls  # so small that a run takes many calls
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


def squares(numbers, _sample):
    return torch.tensor([float(number) ** 2 for number in numbers], dtype=torch.float64)


def nothing():
    return Observations(torch.zeros(0, dtype=torch.float64))


def test_draws_made_together_are_the_draws_made_one_by_one():
    for at_once in (1, 3, 100):
        run = Estimation("any", saturating(), Settings())
        sample = run.sample("squares", nothing(), 7, squares, cost=1, at_once=at_once)
        assert sample.rows.tolist() == [0, 1, 4, 9, 16, 25, 36]
        assert run.meter.stopped == ""


def test_as_many_draws_are_made_together_as_can_be_paid():
    game, together = saturating(), []

    def draw(numbers, sample):
        together.append(len(numbers))
        game.evaluations += 2 * len(numbers)
        return squares(numbers, sample)

    run = Estimation("any", game, Settings(), budget=Budget(max_evaluations=11))
    sample = run.sample("squares", nothing(), 100, draw, cost=2, at_once=3)
    assert together == [3, 2]
    assert sample.draws == 5
    assert run.meter.stopped == "max_evaluations reached"


def test_a_phase_ends_for_the_reason_it_is_given_and_the_next_does_nothing():
    run = Estimation("any", saturating(), Settings())
    sample = run.sample("squares", nothing(), 9, squares, cost=1, done=lambda s: "enough" if s.draws == 4 else "")
    assert (sample.draws, run.meter.stopped) == (4, "enough")
    assert run.sample("more squares", sample, 9, squares, cost=1) is sample
    assert list(run.meter.seconds) == ["squares"]


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


def test_a_run_that_is_no_continuation_is_refused():
    half = estimate(saturating(), "montecarlo", permutations=3)
    for method, settings, word in [
        ("gradient", {}, "method"),
        ("montecarlo", {"seed": 1}, "seed"),
        ("montecarlo", {"antithetic": True}, "settings"),
    ]:
        with pytest.raises(UserError, match=word):
            estimate(saturating(), method, resume=half, **settings)
    with pytest.raises(UserError, match="players"):
        estimate(KNOWN_GAMES["majority"](), "montecarlo", resume=half)

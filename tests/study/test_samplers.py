"""The grid side by side, or proposals one after the other; who falls behind is given up."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pytest

from snv.errors import UserError
from snv.study.samplers import check_sampler, search_grid, search_optuna
from snv.study.space import Space
from snv.study.trial import Outcome, Trial


class World:
    """Trials that learn without any computing: the accuracy after an epoch is the epoch times ``lr``."""

    def __init__(self, failing: float | None = None) -> None:
        self.failing, self.calls = failing, []

    def begin(self, number: int, settings: dict) -> Trial:
        return Trial(number, settings, {0: Outcome()})

    def advance(self, trials: Sequence[Trial], until: int | None) -> None:
        for trial in trials:
            self.advance_one(trial, until)

    def advance_one(self, trial: Trial, until: int | None) -> None:
        lr, n = trial.settings["train.lr"], until or 8
        self.calls.append((trial.number, until))
        if lr == self.failing:
            trial.outcomes[0] = Outcome("failed", (1.0,), reason="diverged")
            return
        curve = tuple(lr * (epoch + 1) for epoch in range(n))
        losses = tuple(-accuracy for accuracy in curve)
        trial.outcomes[0] = Outcome("begun" if until else "finished", curve, losses, None if until else curve[-1])

    def give_up(self, trial: Trial, epochs: int) -> None:
        trial.given_up = epochs


def on_grid(world: World, rates: list[float]) -> list[Trial]:
    trials = [world.begin(i, {"train.lr": lr}) for i, lr in enumerate(rates)]
    search_grid(trials, [2, 4], world.advance, world.give_up)
    return trials


def test_the_worse_half_of_a_grid_is_given_up_at_each_rung_but_never_the_settings_as_they_were():
    trials = on_grid(World(), [1, 2, 3, 4, 5, 6, 7, 8])
    assert [trial.given_up for trial in trials] == [None, 2, 2, 2, 4, None, None, None]
    assert [trial.state for trial in trials] == ["finished", *["given up"] * 4, *["finished"] * 3]
    assert max(trials, key=lambda trial: trial.score or 0).settings == {"train.lr": 8}


def test_nothing_is_computed_twice_or_after_it_was_given_up():
    world = World()
    on_grid(world, [1, 2, 3, 4])
    assert len(world.calls) == len(set(world.calls))
    assert (1, 4) not in world.calls


def test_a_trial_that_failed_is_left_alone_and_keeps_nobody_else_in():
    world = World(failing=4)
    trials = on_grid(world, [1, 2, 3, 4])
    assert trials[3].state == "failed"
    assert world.calls.count((3, 2)) == 1
    assert (3, 4) not in world.calls
    assert trials[2].state == "finished"


def proposals(n: int, seed: int = 0, world: World | None = None) -> list[Trial]:
    pytest.importorskip("optuna", reason="needs Optuna: pip install 'snv[tune]'")
    world, space = world or World(), Space({"train.lr": tuple(range(1, 30))})
    return search_optuna(space, {"train.lr": 0.5}, n, seed, world.begin, [2, 4], world.advance, world.give_up)


def test_optuna_begins_with_the_settings_as_they_are_and_makes_every_trial_once():
    world = World()
    trials = proposals(25, world=world)
    assert trials[0].settings == {"train.lr": 0.5}
    assert len({trial.settings["train.lr"] for trial in trials}) == len(trials) <= 25
    assert len(world.calls) == len(set(world.calls))
    assert trials[0].state == "finished"
    assert {"given up", "finished"} == {trial.state for trial in trials}


def test_optuna_proposes_the_same_with_the_same_seed_and_others_with_another():
    first, second, other = proposals(12), proposals(12), proposals(12, seed=1)
    assert [trial.settings for trial in first] == [trial.settings for trial in second]
    assert [trial.settings for trial in first] != [trial.settings for trial in other]


def test_optuna_learns_from_what_failed(monkeypatch):
    trials = proposals(12, world=World(failing=0.5))
    assert trials[0].state == "failed"
    assert sum(trial.state == "finished" for trial in trials) > 1


def test_without_optuna_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(UserError, match=r"pip install 'snv\[tune\]'"):
        check_sampler("optuna", 3)


def test_a_wrong_sampler_or_number_of_trials_is_refused():
    with pytest.raises(UserError, match="Did you mean 'grid'"):
        check_sampler("gird", None)
    with pytest.raises(UserError, match="at least one trial; got 0"):
        check_sampler("grid", 0)

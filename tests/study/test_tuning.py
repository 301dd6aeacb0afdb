"""What a ledger says follows from its trials."""

from __future__ import annotations

import pytest
from searched import small

from snv.errors import UserError
from snv.study.protocols import stream_for
from snv.study.space import Space
from snv.study.trial import Outcome, Trial
from snv.study.tuning import Tuning, images_in, ranked, reached


def ended(number: int, lr: float, *scores: float) -> Trial:
    outcomes = {
        i: Outcome("finished", (50.0, score), (1.0, 0.5), score, 10, 1e9, 2.0) for i, score in enumerate(scores)
    }
    return Trial(number, {"train.lr": lr}, outcomes)


def given_up(number: int, lr: float, best: float) -> Trial:
    return Trial(number, {"train.lr": lr}, {0: Outcome("begun", (best,), (1.0,), None, 5, 1e8, 1.0)}, given_up=1)


def ledger_of(*trials: Trial, protocol: str = "first-task") -> Tuning:
    space = Space({"train.lr": tuple(trial.settings["train.lr"] for trial in trials)}, {"learner.strength": "idle"})
    return Tuning(small("method=ewc"), protocol, "grid", (0,), space, (1,), {"tasks": 1}, trials)


def test_of_equal_trials_the_first_is_chosen_so_the_settings_before_stay_unless_others_are_better():
    assert ledger_of(ended(0, 1, 80), ended(1, 2, 80)).best.number == 0
    assert ledger_of(ended(0, 1, 80), ended(1, 2, 80.1), ended(2, 3, 80.1)).best.number == 1


def test_the_mean_over_seeds_counts():
    assert ledger_of(ended(0, 1, 80, 80), ended(1, 2, 100, 50)).best.number == 0


def test_a_trial_that_was_given_up_is_not_chosen_however_it_stood():
    tuning = ledger_of(ended(0, 1, 60), given_up(1, 2, 99))
    assert tuning.best.number == 0
    assert reached(tuning.trials[1]) == 99


def test_what_was_spent_is_the_sum_of_all_trials():
    spent = ledger_of(ended(0, 1, 80, 70), given_up(1, 2, 30)).spent
    assert spent == {"trials": 2, "epochs": 5, "images": 25, "macs": 2.1e9, "seconds": 5.0}


def test_the_best_come_first_then_who_was_given_up_then_who_failed():
    failed = Trial(3, {"train.lr": 4}, {0: Outcome("failed", reason="diverged")})
    trials = [failed, given_up(2, 3, 99), ended(0, 1, 60), ended(1, 2, 70)]
    assert [trial.number for trial in ranked(trials)] == [1, 0, 2, 3]


def test_a_ledger_names_what_could_not_be_chosen_and_what_it_stays_at():
    assert ledger_of(ended(0, 1, 80)).as_json()["left_out"] == {"learner.strength": {"stays": 10.0, "why": "idle"}}


def test_a_search_without_an_end_says_why():
    with pytest.raises(UserError, match="The first said: diverged"):
        _ = ledger_of(Trial(0, {"train.lr": 1}, {0: Outcome("failed", reason="diverged")})).best


def test_images_are_counted(config):
    images = images_in(stream_for(config, "halves"))
    assert images == {"tasks": 2, "classes": 4, "training images": 4 * 21, "validation images": 4 * 3}

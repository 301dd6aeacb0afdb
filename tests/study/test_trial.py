"""A trial is learned with every seed, from rung to rung, and what is done is not done again."""

from __future__ import annotations

import pytest
from searched import small

from snv.errors import UserError
from snv.study import workers
from snv.study.protocols import stream_for
from snv.study.trial import Desk, Outcome, Trial


@pytest.fixture
def desk(config, tmp_path):
    return Desk(config, stream_for(config, "first-task"), tmp_path)


def test_a_trial_that_pauses_comes_to_what_it_comes_to_at_once(desk, tmp_path):
    settings, seeds = {"train.lr": 0.01}, (0, 1)
    apart, at_once = desk.trial(0, settings, seeds), desk.trial(1, settings, seeds)
    desk.advance([apart], 2)
    assert apart.state == "begun"
    assert [len(outcome.curve) for outcome in apart.outcomes.values()] == [2, 2]
    assert len(list((tmp_path / "runs").iterdir())) == 2
    desk.advance([apart], None)
    desk.advance([at_once], None)
    assert apart.state == at_once.state == "finished"
    assert apart.score == at_once.score
    for seed in seeds:
        first, second = apart.outcomes[seed], at_once.outcomes[seed]
        assert (first.curve, first.images, first.macs) == (second.curve, second.images, second.macs)
        assert first.images == 4 * len(desk.stream.task(0).train)
    assert not list((tmp_path / "runs").iterdir())  # a record of each is all that is kept


def test_seeds_differ_in_weights_and_batches_not_in_images(desk):
    trial = desk.trial(0, {"train.lr": 0.003}, (0, 1))
    desk.advance([trial], None)
    first, second = trial.outcomes.values()
    assert first.curve != second.curve
    assert trial.score == (first.score + second.score) / 2


def test_what_is_done_is_not_done_again(desk, monkeypatch):
    trial = desk.trial(0, {"train.lr": 0.01}, (0,))
    desk.advance([trial], None)
    monkeypatch.setattr(workers, "run", None)
    again = desk.trial(0, {"train.lr": 0.01}, (0,))
    desk.advance([again], 2)
    desk.advance([again], None)
    assert again == trial


def test_a_trial_that_diverges_has_failed_with_its_reason_and_what_it_cost(config, tmp_path):
    config = small("method=sgd", "train.optimizer=sgd")
    desk = Desk(config, stream_for(config, "first-task"), tmp_path)
    trial = desk.trial(0, {"train.lr": 1e30}, (0, 1))
    desk.advance([trial], 1)
    assert trial.state == "failed"
    assert "diverged" in trial.reason
    assert trial.score is None
    assert trial.epochs == 0  # none came to its end, at either rate
    assert trial.total("macs") > 0
    spent = trial.total("macs")
    desk.advance([trial], None)
    assert trial.total("macs") == spent  # nothing more is done on it


def test_settings_that_a_method_cannot_be_made_with_are_named(desk):
    desk.check({"train.lr": 0.01})
    with pytest.raises(UserError, match=r"learner\.strength=-1"):
        desk.check({"learner.strength": -1})


def test_the_rank_is_the_mean_over_seeds_of_the_best_so_far():
    first = Outcome("begun", (50.0, 80.0, 70.0), (0.8, 0.4, 0.6))
    trial = Trial(0, {}, {0: first, 1: Outcome("begun", (60.0, 50.0, 90.0), (0.6, 0.8, 0.2))})
    assert [trial.standing(epochs) for epochs in (1, 2, 3)] == [55, 70, 85]
    assert [-round(trial.rank(epochs)[1], 6) for epochs in (1, 2, 3)] == [0.7, 0.5, 0.3]

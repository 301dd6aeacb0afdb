"""What a search goes through, and what it refuses to search."""

from __future__ import annotations

import pytest
from searched import small

from snv.errors import UserError
from snv.learners import LEARNERS
from snv.study.space import Space, candidates, current, space_of

SEARCHED = [(name, kind.card.scenarios[0]) for name, kind in LEARNERS.items() if kind.card.space]
"""Methods with a grid."""


@pytest.mark.parametrize(("method", "scenario"), SEARCHED, ids=lambda part: part)
def test_every_method_has_settings_that_the_first_task_can_choose_and_everything_else_is_accounted_for(
    method, scenario
):
    config, card = small(f"method={method}", f"scenario={scenario}"), LEARNERS[method].card
    space = space_of(config, "first-task")
    assert space.values
    assert {*space.values, *space.left_out} == set(card.space)
    assert not set(space.values) & {*card.idle_first, *card.idle}
    wider = space_of(config, "halves")
    assert set(wider.values) == set(space.values) | set(card.idle_first) - set(wider.left_out)


def test_what_does_nothing_on_the_first_task_is_left_out_with_the_reason():
    space = space_of(small("method=ewc"), "first-task")
    assert set(space.values) == {"train.lr"}
    assert "first task" in space.left_out["learner.strength"]
    assert set(space_of(small("method=ewc"), "halves").values) == {"train.lr", "learner.strength", "learner.decay"}


def test_what_the_run_cannot_have_is_left_out_with_the_reason():
    plain, walked = small("method=snv"), small("method=snv", "learner.estimator=tmab")
    assert "learner.estimator=gradient" in space_of(plain, "first-task").left_out["learner.confidence"]
    assert "learner.confidence" in space_of(walked, "first-task").values


def test_own_values_stand_in_for_the_methods(config):
    space = space_of(config, "halves", {"learner.strength": [1, 1000]})
    assert dict(space.values) == {"learner.strength": (1, 1000)}


@pytest.mark.parametrize(
    ("own", "says"),
    [
        ({"learner.strenght": [1]}, "Did you mean 'strength'"),
        ({"learner.strength": [1]}, "--protocol halves"),
        ({"learner.decay": [7]}, "lies in"),
        ({"train.lr": []}, "no value"),
        ({"data.per_class": [20, 30]}, "no setting of training"),
        ({}, "nothing to choose"),
    ],
)
def test_own_values_that_cannot_be_searched_are_refused_with_advice(config, own, says):
    with pytest.raises(UserError, match=says):
        space_of(config, "first-task", own)


def test_a_method_without_a_grid_is_told_so_and_so_is_a_wrong_protocol(config):
    with pytest.raises(UserError, match="nothing to choose for slda"):
        space_of(small("method=slda"), "first-task")
    with pytest.raises(UserError, match="'halves'"):
        space_of(config, "half")


def test_the_settings_as_they_are_come_first_and_once(config):
    space = space_of(config, "halves")
    first = current(config, space)
    assert first == {"train.lr": 0.001, "learner.strength": 10.0, "learner.decay": 1.0}
    wanted = candidates(space, first, None, seed=0)
    assert wanted[0] == first
    assert len(wanted) == space.size == 75  # they are a point of the grid
    assert [dict(pair) for pair in {tuple(settings.items()) for settings in wanted}].__len__() == 75


def test_of_a_grid_too_large_a_random_part_is_tried_that_follows_from_the_seed():
    space = Space({"train.lr": tuple(range(1, 101))})
    first = {"train.lr": 0.5}
    drawn = candidates(space, first, 10, seed=0)
    assert len(drawn) == 10
    assert drawn == candidates(space, first, 10, seed=0)
    assert drawn != candidates(space, first, 10, seed=1)
    assert drawn[0] == first
    assert drawn[1:] == sorted(drawn[1:], key=lambda settings: settings["train.lr"])
    assert candidates(space, first, 1, seed=0) == [first]

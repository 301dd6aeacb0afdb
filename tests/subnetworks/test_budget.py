"""What fits, by hand."""

from __future__ import annotations

import pytest

from snv.config import load_config
from snv.errors import UserError
from snv.files import load_state
from snv.runs import run
from snv.runs.prepare import prepare
from snv.subnetworks.budget import Budget


def test_without_overlap_a_tenth_each_fits_ten_times():
    course = Budget(1000, 0.1).plan(12)
    assert course.new == (100,) * 10 + (0, 0)
    assert course.full_after == 10
    assert "full after task 10 of 12; the 2 after it reuse frozen neurons only" in str(course)
    assert Budget(1000, 0.1).tasks_that_fit() == 10


def test_overlap_leaves_room():
    course = Budget(1000, 0.2, overlap=0.5).plan(4)
    assert course.new == (200, 100, 100, 100)
    assert course.used == (200, 300, 400, 500)
    assert course.full_after is None
    assert str(course) == "4 tasks leave 500 of 1,000 neurons free."
    assert Budget(1000, 0.2, overlap=0.5).tasks_that_fit() == 9


def test_a_share_of_what_remains_lasts_for_ever_in_smaller_steps():
    course = Budget(1000, 0.2, of_free=True).plan(4)
    assert course.new == (200, 160, 128, 102)
    assert course.full_after is None
    assert Budget(1000, 0.2, of_free=True, layers=100).tasks_that_fit() == 8  # 200, 160, 128, 102, 4 times 100


def test_every_task_takes_a_neuron_of_every_layer_while_there_are_any():
    course = Budget(100, 0.2, of_free=True, layers=18).plan(6)
    assert course.new == (20, 18, 18, 18, 18, 8)
    assert course.full_after == 6


def test_a_model_in_use_counts_what_it_has():
    assert Budget(1000, 0.3).plan(3, frozen=400).used == (700, 1000, 1000)
    assert Budget(1000, 0.3).tasks_that_fit(400) == 2


@pytest.mark.parametrize("wrong", [{"capacity": 0.0}, {"capacity": 1.5}, {"overlap": 1.0}, {"n": 0}])
def test_nonsense_is_refused(wrong):
    with pytest.raises(UserError):
        Budget(**({"n": 10, "capacity": 0.1} | wrong))
    with pytest.raises(UserError, match="at least one task"):
        Budget(10, 0.1).plan(0)


def test_no_task_takes_more_than_the_largest_subnetwork():
    assert Budget(1000, 0.6, largest=400).plan(3).new == (400, 400, 200)


def test_a_task_that_gets_less_than_it_asks_for_is_told_before_it_starts():
    budget = Budget(1000, 0.3)
    assert budget.shortage(1, 0, 9) is None
    assert "Task 4 gets 100 new neurons instead of 300: that is all" in budget.shortage(4, 900, 9)
    assert "Task 5 finds the network full" in budget.shortage(5, 1000, 9)
    assert "9 are still free" in budget.shortage(5, 1000, 9)


@pytest.mark.parametrize("options", [{}, {"size": "top-k"}, {"largest": 0.2}, {"capacity": 0.02}], ids=str)
def test_the_learner_takes_what_the_planner_foretold(options, tmp_path):
    learner = {"capacity": 0.4} | options
    settings = ["data.tasks=4", "data.classes=8", "data.per_class=20", "train.epochs=2", "network.width=4"]
    config = load_config(None, ["method=snv", *settings, *(f"learner.{key}={value}" for key, value in learner.items())])
    made = prepare(config, lambda *_: None).learner
    course = made.config.budget(made.specialists.neurons).plan(4)
    frozen = 0
    run(config, tmp_path)
    for t in range(4):
        made.load_state_dict(load_state(tmp_path / "checkpoints" / f"task-{t + 1:03}.safetensors")["learner"])
        assert int(made.specialists.frozen.sum()) - frozen == course.new[t]
        frozen = course.used[t]

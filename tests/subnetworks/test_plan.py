"""What fits, by hand."""

from __future__ import annotations

import pytest

from snv.errors import UserError
from snv.subnetworks.budget import plan, tasks_that_fit


def test_without_overlap_a_tenth_each_fits_ten_times():
    course = plan(1000, 0.1, 12)
    assert course.new == (100,) * 10 + (0, 0)
    assert course.full_after == 10
    assert "full after task 10 of 12; the 2 after it reuse frozen neurons only" in str(course)
    assert tasks_that_fit(1000, 0.1) == 10


def test_overlap_leaves_room():
    course = plan(1000, 0.2, 4, overlap=0.5)
    assert course.new == (200, 100, 100, 100)
    assert course.used == (200, 300, 400, 500)
    assert course.full_after is None
    assert str(course) == "4 tasks leave 500 of 1,000 neurons free."
    assert tasks_that_fit(1000, 0.2, overlap=0.5) == 9


def test_a_share_of_what_remains_lasts_for_ever_in_smaller_steps():
    course = plan(1000, 0.2, 4, remaining=True)
    assert course.new == (200, 160, 128, 102)
    assert course.full_after is None
    assert tasks_that_fit(1000, 0.2, remaining=True, least=100) == 4


def test_every_task_takes_a_neuron_of_every_layer_while_there_are_any():
    course = plan(100, 0.2, 6, remaining=True, least=18)
    assert course.new == (20, 18, 18, 18, 18, 8)
    assert course.full_after == 6


def test_a_model_in_use_counts_what_it_has():
    assert plan(1000, 0.3, 3, used=400).used == (700, 1000, 1000)
    assert tasks_that_fit(1000, 0.3, used=400) == 2


@pytest.mark.parametrize(
    "wrong", [{"capacity": 0.0}, {"capacity": 1.5}, {"overlap": 1.0}, {"tasks": 0}, {"n_neurons": 0}]
)
def test_nonsense_is_refused(wrong):
    with pytest.raises(UserError):
        plan(**({"n_neurons": 10, "capacity": 0.1, "tasks": 2} | wrong))

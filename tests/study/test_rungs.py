"""A trial is given up if it is worse than half of those that got as far."""

from __future__ import annotations

import pytest

from snv.study.rungs import best_so_far, goes_on, rungs


def test_trials_are_compared_after_a_quarter_and_after_half_of_the_epochs():
    assert rungs(200) == [50, 100]
    assert rungs(10) == [3, 5]
    assert rungs(3) == [1, 2]
    assert rungs(1) == []


@pytest.mark.parametrize("accuracies", [[50.0, 60, 70], [50.0, 60, 70, 80], [90.0, 10, 50, 50, 20]])
def test_the_better_half_goes_on(accuracies):
    ranks = [(accuracy, -float(i)) for i, accuracy in enumerate(accuracies)]
    going = [rank for rank in ranks if goes_on(rank, ranks)]
    assert len(going) == (len(ranks) + 1) // 2
    assert min(going) > max(set(ranks) - set(going))


def test_trials_of_one_accuracy_are_told_apart_by_their_loss_and_equals_stay_together():
    chance = [(50.0, -0.9), (50.0, -0.7), (50.0, -0.8)]
    assert [goes_on(rank, chance) for rank in chance] == [False, True, True]
    assert all(goes_on((70.0, -0.3), [(70.0, -0.3)] * 4) for _ in range(4))


def test_only_epochs_up_to_the_rung_count_and_a_method_without_epochs_is_never_below():
    assert best_so_far([10.0, 60, 50, 90], [0.9, 0.5, 0.4, 0.1], 3) == (60, -0.4)
    assert best_so_far([], [], 3) > (100, 0)

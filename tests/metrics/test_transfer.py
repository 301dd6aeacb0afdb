"""Hand-worked 3 × 3 matrices."""

from __future__ import annotations

import numpy as np
import pytest

from snv.metrics import transfer

A = np.array([[90.0, 50.0, np.nan], [70.0, 80.0, 40.0], [60.0, 90.0, 100.0]])
UNTRAINED = np.array([45.0, 40.0, 50.0])


def test_ACC_is_the_mean_of_the_last_row():
    assert transfer.final_accuracy(A) == pytest.approx(250 / 3)


def test_AvgAcc_averages_the_means_over_tasks_learned_so_far():
    assert transfer.average_accuracy(A) == pytest.approx((90 + 75 + 250 / 3) / 3)


def test_BWT_is_the_mean_change_since_a_task_was_learned():
    assert transfer.backward_transfer(A) == pytest.approx(((60 - 90) + (90 - 80)) / 2)


def test_forgetting_counts_from_the_best_moment_so_it_is_never_negative():
    assert transfer.forgetting(A) == pytest.approx(((90 - 60) + (90 - 90)) / 2)


def test_FWT_compares_a_task_before_it_is_learned_with_the_untrained_network():
    assert transfer.forward_transfer(A, UNTRAINED) == pytest.approx(((50 - 40) + (40 - 50)) / 2)


def test_PS_is_the_harmonic_mean_of_what_was_learned_and_what_was_kept():
    p = ((0.8 - 0.5) / 0.5 + (1.0 - 0.4) / 0.6) / 2
    s = 1 - 0.10
    assert transfer.plasticity(A) == pytest.approx(p)
    assert transfer.plasticity_stability(A) == pytest.approx(2 * p * s / (p + s))


def test_a_network_that_learns_nothing_has_PS_zero():
    nothing = np.array([[50.0, 50.0], [50.0, 40.0]])
    assert transfer.plasticity_stability(nothing) == 0.0


def test_metrics_leave_the_matrix_as_they_found_it():
    before = A.copy()
    transfer.summary(A, UNTRAINED, 1.0)
    np.testing.assert_array_equal(A, before)


def test_one_task_has_an_accuracy_but_no_transfer():
    told = transfer.summary(np.array([[80.0]]), np.array([50.0]), 1.0)
    assert told["ACC"] == told["AvgAcc"] == 80.0
    assert told["BWT"] is told["FWT"] is told["forgetting"] is told["PS"] is None


def test_BWT_of_one_task_says_what_to_report_instead():
    with pytest.raises(ValueError, match=r"needs two tasks; got 1\. Report ACC instead"):
        transfer.backward_transfer(np.array([[80.0]]))

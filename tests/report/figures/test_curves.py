from __future__ import annotations

import numpy as np
import pytest

from invented import a_result
from snv.errors import UserError
from snv.report.figures.curves import curves, so_far
from snv.report.figures.style import caption_of


def lines(axis):
    """Of accuracies; the others lead to labels."""
    return [line for line in axis.lines if line.get_marker() not in (None, "None") and len(line.get_xdata()) > 1]


def test_accuracy_so_far_averages_to_AvgAcc(tmp_path):
    record = a_result(tmp_path).record
    assert so_far(record.accuracy).mean() == pytest.approx(record.metrics["AvgAcc"])
    assert so_far(record.accuracy)[-1] == pytest.approx(record.metrics["ACC"])


def test_lines_are_means_over_seeds_and_bands_one_deviation(tmp_path):
    results = [a_result(tmp_path, "ewc", seed=s) for s in range(3)]
    (axis,) = curves(results, "x").axes
    rows = np.array([so_far(result.record.accuracy) for result in results])
    np.testing.assert_allclose(lines(axis)[0].get_ydata(), rows.mean(0))
    (band,) = axis.collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert heights.max() == pytest.approx((rows.mean(0) + rows.std(0, ddof=1)).max())


def test_one_seed_has_no_band_and_stored_images_are_dashed(tmp_path):
    (axis,) = curves([a_result(tmp_path, "sgd"), a_result(tmp_path, "icarl")], "x").axes
    assert len(axis.collections) == 0
    assert sorted(line.get_linestyle() for line in lines(axis)) == ["-", "--"]


def test_ten_and_twenty_tasks_and_both_scenarios_have_panels_of_their_own(tmp_path):
    results = [a_result(tmp_path, "sgd", s, tasks=n) for n in (20, 10) for s in ("cil", "til")]
    figure = curves(results, "snv figure curves X")
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert titles == [
        "TIL: digits, 10 tasks",
        "CIL: digits, 10 tasks",
        "TIL: digits, 20 tasks",
        "CIL: digits, 20 tasks",
    ]
    assert "4 runs, seed 0" in caption_of(figure) and caption_of(figure).endswith("Made by: snv figure curves X")


def test_variants_of_a_method_are_told_apart(tmp_path):
    results = [a_result(tmp_path, "snv", capacity=c) for c in (0.1, 0.3)]
    (axis,) = curves(results, "x").axes
    assert {text.get_text() for text in axis.texts} == {"snv (capacity=0.1)", "snv (capacity=0.3)"}
    assert len({(line.get_color(), line.get_marker()) for line in lines(axis)}) == 2


def test_unfinished_runs_are_left_out_and_counted(tmp_path):
    late = a_result(tmp_path, "ewc")
    late.record.tasks_done = 2
    figure = curves([a_result(tmp_path, "sgd"), late], "x")
    assert "1 unfinished runs left out" in caption_of(figure)
    with pytest.raises(UserError, match="None of these runs has learned all its tasks"):
        curves([late], "x")

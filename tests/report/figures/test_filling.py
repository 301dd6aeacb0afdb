from __future__ import annotations

import numpy as np
import pytest

from invented import a_result, kept, with_table
from snv.errors import UserError
from snv.report.analyses.capacity import capacity_of
from snv.report.figures.filling import capacity, courses, sweeps
from snv.report.figures.style import caption_of


def test_the_course_is_the_mean_over_seeds_of_what_masks_hold_together(tmp_path):
    results = [with_table(a_result(tmp_path, "snv", seed=s)) for s in (0, 1)]
    figure = capacity(results, "snv figure capacity X")
    (axis,) = figure.axes
    expected = 100 * np.mean([capacity_of(result).neurons for result in results], axis=0)
    np.testing.assert_allclose(axis.lines[0].get_ydata(), expected)
    assert "2 runs, seeds 0, 1" in caption_of(figure) and "(b)" not in caption_of(figure)


def test_methods_that_grow_or_use_everything_at_once_have_no_course(tmp_path):
    results = [kept(a_result(tmp_path, method, "cil")) for method in ("pec", "sgd")]
    assert courses(results) == {}


def test_runs_that_differ_in_c_alone_are_a_sweep(tmp_path):
    results = [a_result(tmp_path, "snv", seed=s, capacity=c, reuse="free") for c in (0.5, 0.1) for s in (0, 1)]
    results += [a_result(tmp_path, "wsn", capacity=0.3), a_result(tmp_path, "snv", capacity=0.9, reuse="none")]
    found = sweeps(results)
    assert list(found) == [("snv", "til")]
    assert list(found["snv", "til"]) == [0.1, 0.5]
    assert [len(group) for group in found["snv", "til"].values()] == [2, 2]


def test_accuracy_by_c_is_drawn_with_deviations_where_there_are_seeds(tmp_path):
    results = [a_result(tmp_path, "snv", seed=s, capacity=c) for c in (0.1, 0.5) for s in (0, 1)]
    figure = capacity(results, "x")
    (axis,) = figure.axes
    acc = [[r.record.metrics["ACC"] for r in results[i : i + 2]] for i in (0, 2)]
    np.testing.assert_allclose(axis.containers[0].lines[0].get_ydata().astype(float), np.mean(acc, axis=1))
    assert [label.get_text() for label in axis.get_xticklabels()] == ["0.1", "0.5"]
    assert "4 runs" in caption_of(figure) and "(a)" not in caption_of(figure)


def test_without_masks_and_siblings_there_is_nothing_to_draw(tmp_path):
    with pytest.raises(UserError, match="Try: snv figure capacity"):
        capacity([kept(a_result(tmp_path))], "x")

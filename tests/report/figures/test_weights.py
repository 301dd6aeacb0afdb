from __future__ import annotations

import numpy as np
import pytest

from invented import a_result, kept
from snv.errors import UserError
from snv.report.analyses.pruning import Pruning
from snv.report.figures.style import caption_of
from snv.report.figures.weights import pruning

SHARES = (0.0, 0.3, 0.6)


def a_pruned_result(folder, method, seed=0, accuracies=(90.0, 85.0, 60.0), alone=None):
    result = kept(a_result(folder, method, seed=seed))
    rows = tuple((x - 1, x + 1) for x in accuracies)
    own = None if alone is None else tuple((x, x) for x in alone)
    Pruning(method, "til", seed, SHARES, rows, 1000, 10.0, own).save(result.path)
    return result


def rings(axis):
    return [line for line in axis.lines if line.get_markersize() == 12]


def names(axis):
    return {text.get_text() for text in axis.texts}


def test_the_cliff_is_ringed_where_the_mean_falls_off(tmp_path):
    results = [a_pruned_result(tmp_path, "ewc", 0), a_pruned_result(tmp_path, "ewc", 1, (90, 70, 50))]
    figure = pruning(results, "snv figure pruning X")
    (axis,) = figure.axes
    (ring,) = rings(axis)
    assert (ring.get_xdata()[0], ring.get_ydata()[0]) == (30, 77.5)
    assert names(axis) == {"ewc: 30 %"}
    assert "2 runs, seeds 0, 1" in caption_of(figure) and "more than 10 points below" in caption_of(figure)


def test_a_method_that_does_not_fall_has_no_ring(tmp_path):
    (axis,) = pruning([a_pruned_result(tmp_path, "pec", accuracies=(50, 45, 41))], "x").axes
    assert rings(axis) == [] and names(axis) == {"pec"}


def test_specialists_alone_are_a_line_of_their_own(tmp_path):
    (axis,) = pruning([a_pruned_result(tmp_path, "snv", accuracies=(90, 90, 90), alone=(80, 75, 20))], "x").axes
    assert names(axis) == {"snv", "snv alone: 60 %"}
    heights = [line.get_ydata() for line in axis.lines if len(line.get_xdata()) == 3]
    np.testing.assert_allclose(heights, [[90, 90, 90], [80, 75, 20]])


def test_runs_that_were_not_pruned_are_asked_to_be(tmp_path):
    with pytest.raises(UserError, match="Try: snv analyse pruning RUNS"):
        pruning([a_result(tmp_path)], "x")


def test_runs_pruned_at_other_shares_do_not_mix(tmp_path):
    results = [a_pruned_result(tmp_path, "ewc", seed) for seed in (0, 1)]
    Pruning("ewc", "til", 1, (0.0,), ((90.0, 90.0),), 1000, 10.0).save(results[1].path)
    with pytest.raises(UserError, match="pruned at different shares"):
        pruning(results, "x")

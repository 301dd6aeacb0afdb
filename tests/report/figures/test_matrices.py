"""Accuracy matrices are drawn, however many runs there are."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from invented import a_result
from quick_run import QUICK
from snv.errors import UserError
from snv.report.figures.matrices import matrices
from snv.report.figures.style import caption_of


def test_the_picture_of_matrices_is_drawn(cli, tmp_path):
    for method in ("sgd", "joint"):
        cli("run", "--method", method, "--out", tmp_path / "runs" / method, *QUICK, "--epochs", 2)
    told = cli("show", tmp_path / "runs", "--picture", tmp_path / "m.png")
    assert told.code == 0
    with Image.open(tmp_path / "m.png") as picture:
        assert picture.size[0] > 300
        assert "snv show" in picture.text["Description"]
    assert told.out.count("finished") == 2


def test_a_panel_is_the_mean_over_seeds(tmp_path):
    results = [a_result(tmp_path, "snv", "cil", seed=s) for s in range(3)]
    axis, _bar = matrices(results, "x").axes
    shown = axis.images[0].get_array()
    mean = np.mean([result.record.accuracy for result in results], axis=0)
    lower = np.tri(4, dtype=bool)
    np.testing.assert_allclose(shown[lower].data, mean[lower])
    assert shown.mask[~lower].all(), "what was not learned yet is not shown"
    acc = [result.record.metrics["ACC"] for result in results]
    assert axis.get_title() == f"snv · CIL\nACC {np.mean(acc):.1f} ± {np.std(acc, ddof=1):.1f}"


def test_scenarios_have_lines_of_their_own_and_runs_under_way_show_what_they_have(tmp_path):
    late = a_result(tmp_path, "ewc", "til")
    late.record.tasks_done = 2
    figure = matrices([late, a_result(tmp_path, "sgd", "cil"), a_result(tmp_path, "sgd", "til")], "x")
    assert figure.axes[1].images[0].get_array().shape == (2, 2)
    assert [axis.get_title().split("\n")[0] for axis in figure.axes[:3]] == ["sgd · TIL", "ewc · TIL", "sgd · CIL"]
    assert "3 runs, seed 0" in caption_of(figure)


def test_without_a_task_learned_there_is_nothing_to_draw(tmp_path):
    empty = a_result(tmp_path)
    empty.record.tasks_done = 0
    with pytest.raises(UserError, match="None of these runs has learned a task"):
        matrices([empty], "x")

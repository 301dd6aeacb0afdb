from __future__ import annotations

import numpy as np
import pytest

from invented import a_result
from snv.errors import UserError
from snv.report.figures.bars import costs
from snv.report.figures.style import caption_of


def test_the_pieces_of_a_bar_are_together_what_the_run_cost_on_average(tmp_path):
    results = [a_result(tmp_path, "snv", seed=s) for s in range(3)]
    operations, time, *_ = costs(results, "x").axes
    seconds = [sum(result.record.cost["seconds"].values()) for result in results]
    assert sum(patch.get_width() for patch in time.patches) == pytest.approx(np.mean(seconds) / 60)
    assert sum(patch.get_width() for patch in operations.patches) == pytest.approx(4.5)
    assert len({patch.get_hatch() for patch in time.patches}) == len(time.patches) == 4, "told apart in grey"


def test_rows_are_methods_in_the_catalogues_order_by_scenario(tmp_path):
    results = [a_result(tmp_path, m, s) for m, s in [("snv", "til"), ("sgd", "cil"), ("sgd", "til"), ("snv", "cil")]]
    figure = costs(results, "x")
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == ["sgd · TIL", "snv · TIL", "sgd · CIL", "snv · CIL"]
    assert "4 runs, seed 0" in caption_of(figure)


def test_what_was_not_recorded_is_said(tmp_path):
    result = a_result(tmp_path)
    result.record.bytes_kept, result.record.cost = [], {"seconds": {"train": 1.0}, "macs": {"train": 1.0}}
    figure = costs([result], "x")
    figure.draw_without_rendering()
    assert [text.get_text().strip() for axis in figure.axes[2:] for text in axis.texts] == ["not recorded"] * 2


def test_without_costs_there_are_no_bars(tmp_path):
    result = a_result(tmp_path)
    result.record.cost = {}
    with pytest.raises(UserError, match="recorded its costs"):
        costs([result], "x")

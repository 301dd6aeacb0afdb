from __future__ import annotations

import numpy as np
import pytest

from invented import a_record, a_result
from snv.metrics import summary
from snv.report.figures.explained import EXAMPLE, UNTRAINED, explained, readings
from snv.report.figures.style import caption_of


@pytest.mark.parametrize("seed", range(5))
def test_what_is_added_minus_what_is_taken_away_is_the_metric(seed):
    record = a_record(seed=seed, tasks=5)
    accuracy = np.nan_to_num(record.accuracy)
    values = summary(record.accuracy, record.untrained, None)
    for reading in readings(record.accuracy):
        taken = accuracy[reading.taken].sum() + record.untrained[reading.untrained].sum()
        columns = (reading.added | reading.taken).any(0).sum()
        assert (accuracy[reading.added].sum() - taken) / columns == pytest.approx(values[reading.name]), reading.name


def test_the_titles_are_the_metrics_of_what_is_shown(tmp_path):
    values = summary(EXAMPLE, UNTRAINED, None)
    figure = explained([], "x")
    assert figure.axes[0].get_title() == f"ACC = {values['ACC']:.2f}"
    assert "made up" in caption_of(figure)
    result = a_result(tmp_path, "snv", seed=3)
    figure = explained([result], "x")
    assert figure.axes[0].get_title() == f"ACC = {result.record.metrics['ACC']:.2f}"
    assert "of one run, snv · TIL · seed 3" in caption_of(figure)


def test_the_example_has_something_for_every_metric_to_read():
    assert all(abs(value) > 1 for name, value in summary(EXAMPLE, UNTRAINED, None).items() if name not in ("PS", "CAP"))

"""A record survives as plain JSON."""

from __future__ import annotations

import json

import numpy as np

from snv.runs.record import Record


def test_what_was_not_evaluated_is_null_and_comes_back_as_such():
    record = Record.blank({}, 2)
    record.accuracy[0] = [90.0, 50.0]
    record.tasks_done, record.capacity = 1, {"parameters": 0.5, "neurons": 0.5}
    stored = json.loads(json.dumps(record.results(), allow_nan=False))
    assert stored["accuracy"][1] == [None, None]
    again = Record.blank({}, 2)
    again.load_results(stored)
    np.testing.assert_array_equal(again.accuracy, record.accuracy)
    assert again.metrics == record.metrics and again.metrics["ACC"] == 90.0
    assert again.results() == record.results()


def test_an_older_record_has_no_bytes_and_no_valuations():
    older = {
        key: value for key, value in Record.blank({}, 1).results().items() if key not in ("bytes_kept", "valuations")
    }
    record = Record.blank({}, 1)
    record.load_results(older)
    assert (record.bytes_kept, record.valuations) == ([], [])

"""A record survives as plain JSON."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from snv.config import load_config
from snv.learners import LEARNERS
from snv.runs import run
from snv.runs.directory import load_record
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


def test_an_older_record_has_no_bytes_no_valuations_and_no_details():
    older = {
        key: value for key, value in Record.blank({}, 1).results().items() if key not in ("bytes_kept", "valuations")
    }
    record = Record.blank({}, 1)
    record.load_results(older)
    assert (record.bytes_kept, record.valuations, record.details) == ([], [], None)
    assert "details" not in record.results()


def test_a_CIL_run_records_accuracy_with_the_task_known_beside_that_without(tmp_path: Path):
    short = ["data.tasks=2", "data.classes=4", "data.per_class=40", "train.epochs=2", "network.width=4", "threads=1"]
    for method in LEARNERS:
        if "cil" not in LEARNERS[method].card.scenarios:
            continue
        record = run(load_config(None, [f"method={method}", "scenario=cil", *short]), tmp_path / method)
        assert np.isnan(record.known[0, 1]), "a task that is not learned has no head"
        assert (record.known[1] >= record.accuracy[1]).all(), method
        stored = load_record(tmp_path / method)
        np.testing.assert_array_equal(stored.known, record.known)
        assert stored.metrics["ACC known"] == pytest.approx(record.known[1].mean())


def test_SNV_trains_alike_in_both_scenarios_so_what_CIL_knows_with_the_task_is_TIL(tmp_path: Path):
    short = ["data.tasks=3", "data.classes=6", "data.per_class=40", "train.epochs=4", "network.width=4", "threads=1"]
    til, cil = (run(load_config(None, ["method=snv", f"scenario={s}", *short]), tmp_path / s) for s in ("til", "cil"))
    learned = np.tril_indices(3)
    np.testing.assert_array_equal(cil.known[learned], til.accuracy[learned])

from __future__ import annotations

import math

import pytest
from table_records import a_result

from snv.report.measures import MEASURES, accuracies, answers_for, metric, seconds, valuation_seconds

NAN = math.nan


def test_a_run_answers_for_its_own_scenario_and_for_TIL_if_its_method_trains_alike():
    known = [[80.0, NAN], [80.0, 90.0]]
    assert answers_for(a_result("sgd", "cil", known=known), "cil")
    assert not answers_for(a_result("sgd", "cil", known=known), "til")
    assert answers_for(a_result("snv", "cil", known=known), "til")
    assert not answers_for(a_result("snv", "cil"), "til"), "an older record without accuracies with the task known"
    assert not answers_for(a_result("snv", "til"), "cil")


def test_metrics_with_the_task_known_need_no_accuracy_before_a_task_is_learned():
    result = a_result("snv", "cil", accuracy=[[80.0, 0.0], [30.0, 60.0]], known=[[80.0, NAN], [70.0, 90.0]])
    assert [metric(result, name, "til") for name in ("ACC", "BWT", "FWT", "PS")] == [80.0, -10.0, None, None]
    assert metric(result, "AvgAcc", "til") == 80.0
    assert metric(result, "ACC", "cil") == 45.0
    assert accuracies(result, "til")[1, 0] == 70.0


def test_costs_are_read_in_the_units_of_their_headings():
    result = a_result()
    result.record.cost |= {"latency_ms": {"1": 2.5, "64": 0.5}, "peak_bytes": 3 * 2**30}
    result.record.bytes_kept = [2**20, 3 * 2**20]
    told = {name: measure.of(result) for name, measure in MEASURES.items()}
    assert told["learning"] == pytest.approx(66 / 60), "training and valuation, not the evaluation"
    assert told["operations"] == 4.0
    assert (told["seconds"], told["valuation"], told["peak"], told["kept"]) == (71.0, 6.0, 3.0, 3.0)
    assert (told["latency 1"], told["latency 64"], told["CAP"]) == (2.5, 0.5, 0.5)


def test_what_was_not_recorded_is_not_there():
    result = a_result()
    result.record.cost, result.record.capacity = {}, None
    assert {name: measure.of(result) for name, measure in MEASURES.items()} == dict.fromkeys(MEASURES)


def test_a_valuation_is_timed_alone_where_the_record_has_it():
    result = a_result()
    assert valuation_seconds(result) == 3.0, "half of the phase, of two tasks"
    result.record.cost["valuation_seconds"] = [1.0, 3.0]
    assert valuation_seconds(result) == 2.0
    assert seconds(result, "train", "value", "cut") == 66.0

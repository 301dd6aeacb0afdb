from __future__ import annotations

import pytest
from table_records import a_result, with_final

from snv.report import table

TEN = with_final(*10 * [70.0])


def test_the_parts_are_those_of_the_paper():
    made = table("valuation", [])
    assert [cell.value for cell in made.column("paper, cifar100")] == [300, 54, 24, 3, 78, 0.26, 50, 11.7, 62, 27]
    assert made.row("valuation, s").cells[0].text == "not yet run"


def test_ours_are_told_from_phases_of_the_record():
    snv = a_result("snv", "cil", accuracy=TEN)
    snv.record.cost = {
        "seconds": {"train": 900.0, "consolidate": 300.0, "value": 60.0, "cut": 10.0, "certify": 5.0, "evaluate": 99.0},
        "valuation_seconds": [6.0] * 10,
    }
    ewc = a_result("ewc", "cil", accuracy=TEN)
    made = table("valuation", [snv, ewc])
    told = {row.label: row.cells[0].value for row in made.rows}
    assert told["training of a task, s"] == 120.0
    assert told["mask, s"] == 1.0
    assert told["valuation, s"] == 6.0
    assert told["valuation over training"] == pytest.approx(0.05)
    assert told["training of all tasks, min"] == 20.0
    assert told["SNV, min"] == pytest.approx(1275 / 60)
    assert told["EWC, min"] == pytest.approx(66 / 60)
    assert told["forward passes, s"] is None


def test_what_was_run_in_several_ways_has_no_one_number():
    several = [a_result("snv", "cil", accuracy=TEN, capacity=c, name=str(c)) for c in (0.1, 0.3)]
    assert table("valuation", several).row("valuation, s").cells[0].text == "run in several ways"

from __future__ import annotations

import pytest
from table_records import a_result, with_final

from snv.learners import LEARNERS
from snv.report import table
from snv.report.cells import NOT_DEFINED, NOT_RUN


@pytest.mark.parametrize("scenario", ["til", "cil"])
def test_every_method_has_a_row_with_all_its_metrics(scenario):
    result = a_result("ewc", scenario, accuracy=[[80.0, 20.0], [60.0, 90.0]])
    made = table(f"details-{scenario}", [result])
    assert {row.label for row in made.rows} == set(LEARNERS)
    told = {column.name: cell.value for column, cell in zip(made.columns, made.row("ewc").cells, strict=True)}
    expected = {"ACC": 75.0, "AvgAcc": 77.5, "BWT": -20.0, "forgetting": 20.0, "FWT": 10.0, "CAP": 0.5}
    assert {name: told[name] for name in expected} == expected
    assert made.row("sgd").cells[0].text == NOT_RUN


def test_with_the_task_known_a_CIL_run_tells_accuracies_and_not_latency():
    known = with_final(80.0, 90.0)
    result = a_result("snv", "cil", known=[[known[0][0], float("nan")], known[1]])
    result.record.cost["latency_ms"] = {"1": 1.0, "64": 0.1}
    made = table("details-til", [result])
    told = {column.name: cell for column, cell in zip(made.columns, made.row("snv").cells, strict=True)}
    assert (told["ACC"].value, told["FWT"].text, told["ms, batch 1"].text) == (85.0, NOT_DEFINED, NOT_DEFINED)
    assert table("details-cil", [result]).row("snv").cells[8].value == 1.0

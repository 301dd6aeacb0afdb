from __future__ import annotations

from table_records import a_result, with_final

from snv.report import table
from snv.report.paper import paper

TEN = with_final(*10 * [70.0])


def test_every_cost_of_the_paper_stands_in_it():
    made = table("cost", [])
    for column, metric in (("operations, 10¹²", "teraFLOPs"), ("minutes", "minutes"), ("GB", "GB"), ("ACC", "ACC")):
        shown = {cell.value for cell in made.column(f"paper, {column}")} - {None}
        assert shown == {told[metric] for row in paper()["cost"].values() for told in row.values()}


def test_ours_are_those_of_ten_tasks_in_CIL():
    result = a_result("ewc", "cil", accuracy=TEN)
    result.record.cost["latency_ms"] = {"1": 1.5, "64": 0.1}
    made = table("cost", [result, a_result("ewc", "til", accuracy=TEN)])
    row = next(row for row in made.rows if row.label == "ewc")
    assert [cell.value for cell in row.cells[:2]] == [4.0, 4300.0]
    assert [cell.value for cell in row.cells[6:10]] == [1.5, 0.4, 70.0, 12.87]
    assert row.cells[-1].seeds == (0,)

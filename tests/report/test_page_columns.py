"""The cells of the page are the numbers of the records."""

from __future__ import annotations

import pytest
from table_records import a_result, with_final

from snv.report.page_columns import COLUMNS, overview
from snv.report.streams import find_streams, panels


def table_of(results):
    streams = find_streams(results)
    return overview([(stream, found) for stream in streams for found in panels(stream).values()])[0]


def test_accuracies_and_differences_are_those_of_the_seeds():
    snv = [a_result("snv", seed=s, accuracy=with_final(acc, acc)) for s, acc in enumerate((80.0, 82.0, 84.0))]
    ewc = [a_result("ewc", seed=s, accuracy=with_final(acc, acc)) for s, acc in enumerate((70.0, 73.0, 73.0))]
    table = table_of(snv + ewc)
    best, behind = table.column("ACC"), table.column("to best")
    assert [(cell.value, cell.best) for cell in best] == [(82.0, True), (72.0, False)]
    assert best[0].deviation == pytest.approx(2.0)
    assert (behind[0].text, behind[1].value) == ("best", pytest.approx(-10.0))
    assert behind[1].interval[0] < -10 < behind[1].interval[1]
    assert behind[1].p < 0.05


def test_costs_of_runs_in_cil_are_not_told_in_til():
    run = a_result("snv", "cil", known=with_final(90, 95))
    table = table_of([run])
    minutes = dict(zip(("til", "cil"), table.column("minutes"), strict=True))
    assert minutes["til"].value is None
    assert minutes["cil"].value == pytest.approx(66 / 60)


def test_a_column_that_says_nothing_of_any_row_is_left_out():
    plain = a_result("sgd")
    assert "ms, batch 1" not in [column.name for column in table_of([plain]).columns]
    plain.record.cost["latency_ms"] = {"1": 2.5}
    assert table_of([plain]).column("ms, batch 1")[0].value == 2.5


def test_the_papers_number_stands_beside_ours_where_the_stream_is_the_papers():
    ten = with_final(*[50.0] * 10)
    assert table_of([a_result("ewc", accuracy=ten)]).column("paper")[0].value is not None
    columns = [column.name for column in table_of([a_result("ewc", accuracy=ten, data={"name": "digits"})]).columns]
    assert "paper" not in columns


def test_the_best_is_marked_within_its_scenario_and_stream():
    finals = [("sgd", "til", 60), ("ewc", "til", 70), ("sgd", "cil", 20), ("ewc", "cil", 10)]
    table = table_of([a_result(method, scenario, accuracy=with_final(acc, acc)) for method, scenario, acc in finals])
    assert [(row.label, cell.best) for row, cell in zip(table.rows, table.column("ACC"), strict=True)] == [
        ("ewc", True),
        ("sgd", False),
        ("sgd", True),
        ("ewc", False),
    ]


def test_every_column_says_what_it_means():
    assert all(len(told.meaning) > 15 for told in COLUMNS)

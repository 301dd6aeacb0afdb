from __future__ import annotations

import pytest
from table_records import a_result, with_final

from snv.learners import LEARNERS
from snv.report import table
from snv.report.cells import NOT_RUN
from snv.report.paper import paper

TEN = with_final(*10 * [70.0])


@pytest.mark.parametrize(("name", "key", "n"), [("imagenet", "imagenet-1k", 6), ("til", "til", 4), ("cil", "cil", 4)])
def test_every_number_of_the_paper_stands_in_its_table(name, key, n):
    shown = [(cell.value, cell.deviation) for cell in table(name, []).column("paper, ACC") if cell.value is not None]
    printed = [tuple(cell["ACC"]) for row in paper()[key].values() for cell in row.values()]
    assert set(shown) == set(printed)
    assert len(table(name, []).groups()) == 3 * n
    for metric in ("BWT", "PS"):
        shown = {round(cell.value, 6) for cell in table(name, []).column(f"paper, {metric}") if cell.value is not None}
        scale = 100 if (name, metric) == ("cil", "BWT") else 1
        assert shown == {round(scale * cell[metric], 6) for row in paper()[key].values() for cell in row.values()}


def test_without_runs_everything_that_could_be_run_is_not_yet_run():
    ours = {row.label: row.cells[0].text for row in table("cil", []).rows}
    assert {name for name, text in ours.items() if text == NOT_RUN} == set(LEARNERS) - {"wsn"}


def test_runs_stand_beside_the_paper_and_the_difference_is_theirs():
    result = a_result("ewc", "cil", accuracy=TEN)
    row = next(row for row in table("cil", [result]).rows if row.label == "ewc")
    assert [cell.value for cell in row.cells[:3]] == [70.0, 12.87, pytest.approx(57.13)]
    assert row.cells[4].value == -25.0, "points, where the paper prints the fraction −0.25"
    assert "Ours, cifar100, 10 tasks: resnet18 of width 16, 20 epochs a task." in table("cil", [result]).notes


def test_the_sweep_of_c_has_a_row_per_c_and_any_other_that_was_run():
    results = [a_result("wsn", accuracy=TEN, capacity=c, name=f"{c}") for c in (0.3, 0.4)]
    cells = {row.label: row.cells for row in table("til", results).rows if row.group.startswith("cifar100, TIL, 10")}
    assert [name for name in cells if name.startswith("wsn")] == [
        f"wsn c={c}" for c in (0.03, 0.05, 0.1, 0.3, 0.4, 0.5)
    ]
    assert (cells["wsn c=0.3"][0].value, cells["wsn c=0.3"][1].value) == (70.0, 63.15)
    assert (cells["wsn c=0.4"][0].value, cells["wsn c=0.4"][1].value) == (70.0, None)
    assert cells["wsn c=0.1"][0].text == NOT_RUN


def test_runs_of_other_streams_are_not_in_it():
    others = [a_result("ewc", "cil", accuracy=TEN, data={"classes": 50}), a_result("ewc", "til", accuracy=TEN)]
    assert {row.cells[0].text for row in table("cil", others).rows if row.label == "ewc"} == {NOT_RUN}

from __future__ import annotations

import pytest
from table_records import a_result, with_final

from snv.errors import UserError
from snv.report import table


def a_run(acc: float, seed: int = 0, method: str = "snv", **learner):
    words = "-".join(f"{name}{value}" for name, value in learner.items())
    return a_result(
        method, seed=seed, accuracy=with_final(acc, acc), name=f"{method}{words}-seed{seed}.json", **learner
    )


def cells(made, label: str) -> dict[str, object]:
    row = made.row(label)
    return {column.title: cell for column, cell in zip(made.columns, row.cells, strict=True)}


def test_a_run_is_compared_with_those_that_differ_in_the_one_setting_alone():
    runs = [a_run(80.0 + s, s, capacity=0.5) for s in range(3)] + [a_run(78.0 + s, s, capacity=0.7) for s in range(3)]
    runs += [
        a_run(10.0, capacity=0.4),
        a_run(99.0, capacity=0.5, estimator="tmab"),
        a_run(99.0, method="wsn", capacity=0.5),
    ]
    found = cells(table("tried", runs), "c = 0.7 · snv · TIL")
    assert found["minus without it"].value == pytest.approx(-2.0)
    assert found["minus without it"].seeds == (0, 1, 2)
    assert found["compared with"].text == "capacity=0.5", "the largest of those that are not above a half"


def test_without_such_a_run_there_is_no_difference():
    found = cells(
        table("tried", [a_run(60.0, reuse="none", capacity=0.09), a_run(70.0)]), "frozen neurons stay out · snv · TIL"
    )
    assert found["ACC"].value == 60.0 and found["minus without it"].value is None


def test_everything_the_paper_tried_has_a_place_with_or_without_a_run():
    made = table("tried", [a_run(50.0, released=0.02, method="snv-paper"), a_run(60.0, method="snv-paper")])
    released = [row.label for row in made.rows if row.group == "frozen weights released"]
    assert released == ["1 %", "2 % · snv-paper · TIL", "3 %", "5 %"]
    assert cells(made, "2 % · snv-paper · TIL")["minus without it"].value == pytest.approx(-10.0)
    assert cells(made, "3 %")["ACC"].text == "not yet run"
    groups = dict.fromkeys(row.group for row in made.rows)
    assert len(groups) == 5 and "small buffers" in groups


def test_small_buffers_are_compared_with_the_papers():
    made = table("tried", [a_run(50.0, method="icarl", buffer=60), a_run(55.0, method="icarl")])
    found = cells(made, "60 images · icarl · TIL")
    assert found["minus without it"].value == pytest.approx(-5.0) and found["compared with"].text == "buffer=None"


def test_runs_of_other_streams_do_not_mix():
    with pytest.raises(UserError, match="not of one stream"):
        table("tried", [a_run(1.0), a_result("snv", data={"name": "digits"})])

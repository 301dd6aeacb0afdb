from __future__ import annotations

from table_records import a_result, with_final

from snv.report import table
from snv.report.estimators import family


def a_run(estimator: str, acc: float, **learner):
    made = a_result("snv", accuracy=with_final(acc, acc), name=f"{estimator}{acc}", estimator=estimator, **learner)
    made.record.cost["valuation_seconds"] = [acc, acc]
    return made


def test_the_rows_are_the_papers_then_ours_and_what_was_not_run_says_so():
    made = table("estimators", [a_run("tmab", 50.0, draws=4), a_run("gradient", 60.0)])
    assert [row.label for row in made.rows] == [
        "(a) Monte Carlo, `montecarlo`",
        "(b) with truncation, `truncated`",
        "(c) TMAB, `tmab`",
        "`gradient`",
        "`hybrid`",
        "`in-run`",
    ]
    assert [cell.value for cell in made.column("ours, ACC")] == [None, None, 50.0, 60.0, None, None]
    assert [cell.value for cell in made.column("paper, ACC")] == [54.92, 54.84, 54.7, None, None, None]
    assert [cell.value for cell in made.column("ours, s, valuation of a task")][2:4] == [50.0, 60.0]
    assert made.rows[0].cells[0].text == "not yet run"


def test_only_runs_that_differ_in_nothing_but_the_estimator_stand_together():
    alone = a_run("hybrid", 70.0, capacity=0.1)
    found = family([alone, a_run("tmab", 50.0, draws=4), a_run("gradient", 60.0)])
    assert set(found) == {"tmab", "gradient"}
    assert family([]) == {}

from __future__ import annotations

import pytest
from table_records import a_result, with_final

from snv.errors import UserError
from snv.learners import LEARNERS
from snv.report import table
from snv.report.cells import NOT_DEFINED, NOT_RUN


def cell(results, method: str, column: str):
    made = table("small", results)
    return made.row(method).cells[[c.title for c in made.columns].index(column)]


def test_every_method_has_a_row_and_says_where_it_was_not_run():
    made = table("small", [a_result("sgd", "til")])
    assert {row.label for row in made.rows} == set(LEARNERS)
    said = [cell.text for cell in made.row("wsn").cells]
    assert (said[0], said[5]) == (NOT_RUN, NOT_DEFINED), "WSN can do TIL only"
    assert made.row("pec").cells[0].text == NOT_DEFINED


def test_mean_and_deviation_are_over_seeds_and_lead_to_their_records():
    results = [a_result("ewc", "til", seed, with_final(*10 * [acc])) for seed, acc in enumerate((60.0, 61.0, 65.0))]
    found = cell(results, "ewc", "ACC, TIL")
    assert (found.value, found.deviation, found.seeds) == (62.0, pytest.approx(7.0**0.5), (0, 1, 2))
    assert found.runs == tuple(result.path for result in results)
    assert cell(results, "ewc", "paper, TIL").value == 50.59
    assert cell(results, "ewc", "difference, TIL").value == pytest.approx(62 - 50.59)


def test_a_CIL_run_of_SNV_gives_its_TIL_numbers_and_one_of_SGD_does_not():
    known = [[80.0, float("nan")], [80.0, 90.0]]
    for method, value in (("snv", 85.0), ("sgd", None)):
        result = a_result(method, "cil", accuracy=[[80.0, 0.0], [30.0, 60.0]], known=known)
        assert cell([result], method, "ACC, TIL").value == value
        assert cell([result], method, "ACC, CIL").value == 45.0
    assert cell([a_result("snv", "cil", known=known)], "snv", "BWT, TIL").value == 0.0


def test_a_TIL_run_stands_before_the_CIL_run_of_its_seed():
    known = [[80.0, float("nan")], [80.0, 90.0]]
    both = [a_result("snv", "cil", known=known), a_result("snv", "til", accuracy=with_final(70.0, 71.0))]
    assert cell(both, "snv", "ACC, TIL").value == 70.5


@pytest.mark.parametrize(("c", "printed"), [(0.03, 59.65), (0.3, 63.15), (0.4, None)])
def test_WSN_stands_beside_the_row_of_its_own_c(c, printed):
    ten = with_final(*10 * [70.0])
    assert cell([a_result("wsn", accuracy=ten, capacity=c)], "wsn", "paper, TIL").value == printed
    assert cell([a_result("sgd", accuracy=ten)], "wsn", "paper, TIL").value == 64.0


def test_the_paper_stands_beside_its_own_streams_only():
    columns = [column.name for column in table("small", [a_result(data={"classes": 50})]).columns]
    assert "paper" not in columns


def test_older_runs_do_what_they_did_before_there_was_a_choice():
    older, newer = a_result("snv"), a_result("snv", common="patches", others="silent")
    labels = [row.label for row in table("small", [older, newer]).rows if row.label.startswith("snv (")]
    assert labels == ["snv (common=none, others=means)", "snv (common=patches, others=silent)"]


def test_settings_are_named_where_a_method_was_run_with_several():
    made = table("small", [a_result("ewc", strength=1.0), a_result("ewc", strength=10.0, name="other")])
    assert [row.label for row in made.rows if row.label.startswith("ewc")] == [
        "ewc (strength=1.0)",
        "ewc (strength=10.0)",
    ]


def test_a_method_is_tested_against_the_reference_over_three_common_seeds():
    def all_runs(n: int):
        return [
            a_result(method, "til", seed, with_final(*2 * [acc + seed + extra * seed]))
            for method, acc, extra in (("snv", 70, 0.0), ("sgd", 30, 0.1))
            for seed in range(n)
        ]

    assert cell(all_runs(3), "sgd", "ACC, TIL").p < 0.001
    assert cell(all_runs(2), "sgd", "ACC, TIL").p is None
    assert cell(all_runs(3), "snv", "ACC, TIL").p is None


def test_the_best_is_marked_among_those_that_keep_as_much():
    results = [a_result(m, accuracy=with_final(a, a)) for m, a in (("sgd", 30.0), ("ewc", 40.0), ("joint", 90.0))]
    assert [cell(results, method, "ACC, TIL").best for method in ("sgd", "ewc", "joint")] == [False, True, False]


def test_runs_of_other_streams_are_refused():
    with pytest.raises(UserError, match=r"not of one stream: data\.name"):
        table("small", [a_result(), a_result(seed=1, data={"name": "mnist"})])


def test_two_results_of_one_seed_are_refused_unless_they_are_the_same():
    assert cell([a_result(), a_result(name="copy")], "sgd", "ACC, TIL").seeds == (0,)
    with pytest.raises(UserError, match="same seed and other results"):
        table("small", [a_result(), a_result(accuracy=with_final(1.0, 2.0), name="other")])


def test_an_unfinished_run_has_no_final_numbers():
    result = a_result()
    result.record.tasks_done = 1
    assert cell([result], "sgd", "ACC, TIL").text == NOT_RUN

from __future__ import annotations

import pytest
from table_records import a_result, with_final

from snv.errors import UserError
from snv.report.cells import NOT_DEFINED, NOT_RUN
from snv.report.variants import cell_of, find_variants, finished, labelled, missing


def test_runs_that_differ_only_in_the_seed_are_one_variant():
    results = [a_result("ewc", seed=s, strength=c) for c in (1.0, 2.0) for s in (1, 0)]
    one, two = find_variants(results, "til")["ewc"]
    assert (list(one.results), one.settings["learner.strength"]) == ([1, 0], 1.0)
    assert list(labelled([one, two])) == ["strength=1.0", "strength=2.0"]
    assert list(labelled([one])) == [""]


def test_cells_are_sorted_by_seed_and_leave_out_what_has_no_number():
    results = {seed: a_result(seed=seed) for seed in (2, 0, 1)}
    cell = cell_of({2: 5.0, 0: 1.0, 1: None}, results)
    assert (cell.value, cell.seeds, cell.runs) == (3.0, (0, 2), (results[0].path, results[2].path))
    assert cell.deviation == pytest.approx(8**0.5)
    assert cell_of({2: None}, results).text == NOT_DEFINED


def test_a_run_of_the_other_scenario_gives_the_network_and_not_its_costs():
    result = a_result("snv", "cil", known=with_final(80.0, 90.0))
    result.record.bytes_kept = [1, 2**20]
    (til,), (cil,) = (find_variants([result], scenario)["snv"] for scenario in ("til", "cil"))
    assert (til.metric("ACC").value, til.measure("CAP").value, til.measure("kept").text) == (85.0, 0.5, NOT_DEFINED)
    assert cil.measure("kept").value == 1.0


def test_what_cannot_be_run_is_not_called_missing():
    assert [missing("wsn", scenario).text for scenario in ("til", "cil")] == [NOT_RUN, NOT_DEFINED]


def test_unfinished_runs_are_left_out():
    result = a_result()
    result.record.tasks_done = 1
    assert finished([result, a_result(seed=1)])[0].seed == 1


def test_two_results_of_one_seed_are_one_too_many():
    with pytest.raises(UserError, match="Remove one"):
        find_variants([a_result(), a_result(accuracy=with_final(1.0, 2.0))], "til")

"""The data of the page of runs: everything shown comes from the records, and nothing is counted that is not done."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from table_records import a_result, with_final

from snv.errors import UserError
from snv.report import write_report
from snv.report.runs_page import curve, runs_page
from snv.runs import NeuronTable, Result


def test_a_row_knows_its_runs_their_matrix_and_their_costs():
    results = [a_result("sgd", seed=s, accuracy=[[90.0, 5.0], [70.0 + 2 * s, 80.0]]) for s in (0, 1)]
    (row,) = runs_page(results).rows
    assert row.runs == (0, 1)
    assert row.mean == ((90.0,), (71.0, 80.0))
    assert row.deviation == ((0.0,), (pytest.approx(2**0.5, abs=1e-3), 0.0))
    assert row.curve == ((90.0, 0.0), (75.5, pytest.approx(0.5**0.5, abs=1e-3)))
    assert row.seconds == {"train": 60.0, "value": 6.0, "evaluate": 5.0}
    acc = row.cells[0]
    assert (acc.text, acc.runs, acc.seeds) == ("75.50 ± 0.71", (0, 1), (0, 1))


def test_with_one_seed_there_is_no_deviation():
    (row,) = runs_page([a_result()]).rows
    assert row.deviation is None
    assert row.curve == ((90.0, None), (75.0, None))


def test_moments_that_were_not_evaluated_stay_empty():
    assert curve(np.array([[[np.nan, np.nan], [60.0, 70.0]]])) == ((None, None), (65.0, None))


def test_an_unfinished_run_is_listed_and_counted_nowhere():
    half = a_result("ewc", accuracy=with_final(99, 99))
    half.record.tasks_done, half.record.status = 1, "interrupted"
    data = runs_page([a_result("sgd"), half])
    assert [row.method for row in data.rows] == ["sgd"]
    assert [run.status for run in data.runs] == ["finished, 2 of 2 tasks", "interrupted, 1 of 2 tasks"]
    assert data.notes == ("1 run is not finished: listed below, counted nowhere.",)


def test_a_record_given_twice_counts_once():
    data = runs_page([a_result(), a_result()])
    assert len(data.runs) == 1
    assert data.rows[0].runs == (0,)


@dataclasses.dataclass(frozen=True, eq=False)
class WithNeurons(Result):
    """A result whose neurons are made up."""

    def neurons(self) -> NeuronTable:
        rng = np.random.default_rng(0)
        return NeuronTable(("a", "b"), (3000, 2000), rng.random((50, 5000), np.float32), rng.random((50, 5000)) < 0.5)


def test_neurons_travel_with_their_run_as_long_as_there_is_room():
    results = [a_result()] + [WithNeurons(a_result(seed=s).path, a_result(seed=s).record) for s in range(1, 8)]
    data = runs_page(results)
    kept = len(data.neurons)
    assert 1 < kept < 7
    assert [run.neurons for run in data.runs] == [None, *range(kept), *[None] * (7 - kept)]
    assert f"{7 - kept} runs are left out" in data.notes[0]


def test_without_runs_there_is_no_page(tmp_path):
    with pytest.raises(UserError, match="at least one run"):
        write_report([], tmp_path)


def test_the_same_records_make_the_same_page(tmp_path):
    results = [a_result("snv"), a_result("ewc")]
    pages = [write_report(results, tmp_path / name).read_bytes() for name in ("a", "b")]
    assert pages[0] == pages[1]

from __future__ import annotations

import pytest
from table_records import a_result, with_final

from snv.report.cells import Cell, Row, Table
from snv.report.paper import Printed
from snv.report.rows import accuracy_cell, difference_cell, group_of, in_groups, notes_on, printed_cell, title_of
from snv.report.variants import find_variants


def test_methods_compete_with_those_that_keep_as_much():
    assert [group_of(name) for name in ("snv", "sgd", "icarl", "joint")] == [
        "keeps no image",
        "keeps no image",
        "keeps images",
        "all images at hand",
    ]
    rows = [Row(name, (), group_of(name)) for name in ("joint", "icarl", "ewc", "snv")]
    assert [row.label for row in in_groups(rows)] == ["ewc", "snv", "icarl", "joint"]


def test_accuracies_are_tested_against_another_method_if_it_was_run_in_one_way():
    finals = {"snv": (70.0, 71.0, 72.0), "sgd": (30.0, 32.0, 31.5)}
    results = [a_result(m, seed=s, accuracy=with_final(a, a)) for m, all_ in finals.items() for s, a in enumerate(all_)]
    found = find_variants(results, "til")
    (snv,), (sgd,) = found["snv"], found["sgd"]
    assert accuracy_cell(sgd, [snv]).p == pytest.approx(accuracy_cell(snv, [sgd]).p)
    assert accuracy_cell(sgd, [snv]).p < 0.05
    assert accuracy_cell(snv, [snv]).p is None
    assert accuracy_cell(sgd, [snv, snv]).p is None


def test_a_difference_needs_both_sides():
    ours, theirs = Cell(50.0, seeds=(0,)), printed_cell(Printed(54.7, 0.4))
    assert (difference_cell(ours, theirs).value, difference_cell(ours, theirs).seeds) == (pytest.approx(-4.7), (0,))
    assert difference_cell(ours, printed_cell(None)).value is None
    assert difference_cell(Cell(text="not yet run"), theirs).value is None


def test_a_title_says_what_was_learned():
    told = title_of([a_result("ewc", data={"classes": 60, "size": 32})])
    assert told == "cifar100, 60 classes, 32 pixels, 2 tasks, resnet18 of width 16, 20 epochs a task"
    assert title_of([]) == "no runs yet"


def test_a_table_says_in_which_numbers_its_runs_were_trained_as_far_as_records_do():
    results = [a_result("ewc", seed=seed) for seed in range(4)]
    made = Table("small", "", (), ())
    assert not any("Numbers" in note for note in notes_on(made, "snv", results))
    for result, precision in zip(results, ("fp32", "bf16", "fp32"), strict=False):
        result.record.cost["computed"] = {"precision": precision}
    assert notes_on(made, "snv", results)[-1] == (
        "Numbers of training, by records: 1 bf16, 2 fp32, 1 older and do not say it."
    )

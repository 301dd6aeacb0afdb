from __future__ import annotations

from pathlib import Path

import pytest
from table_records import a_result, with_final

from snv.errors import UserError
from snv.report import table
from snv.report.named import name_of


def a_named(name: str, seed: int, acc: float, **learner):
    return a_result("snv", seed=seed, accuracy=with_final(acc, acc), name=f"{name}-seed{seed}.json", **learner)


def test_a_name_is_that_of_the_file_or_directory_without_the_seed():
    assert name_of(Path("results/x/snv-til-c0.3-seed12.json")) == "snv-til-c0.3"
    assert name_of(Path("runs/snv-til-seed0")) == "snv-til"
    assert name_of(Path("runs/mine")) == "mine"


def test_runs_are_rows_by_name():
    made = table(
        "runs", [a_named("b", 0, 50.0, capacity=0.1), a_named("b", 1, 60.0, capacity=0.1), a_named("a", 0, 70.0)]
    )
    assert [row.label for row in made.rows] == ["a", "b"]
    assert [(cell.value, cell.n_seeds) for cell in made.column("ACC")] == [(70.0, 1), (55.0, 2)]
    assert made.column("seconds")[0].value == 71.0


def test_one_name_has_one_setting():
    with pytest.raises(UserError, match=r"one name and other settings \(learner\.capacity\)"):
        table("runs", [a_named("a", 0, 50.0, capacity=0.1), a_named("a", 1, 50.0, capacity=0.2)])


def test_differences_are_paired_by_seed_and_by_tag():
    results = [
        a_named(f"{name}-{tag}", seed, acc + 10 * seed, capacity=float(tag[1:]), estimator=estimator)
        for tag, shift in (("c0.1", 0.0), ("c0.3", 5.0))
        for name, estimator, acc in (("ours", "gradient", 50.0), ("random", "tmab", 48.0 - shift))
        for seed in (0, 1)
    ]
    made = table("differences", results, against="ours")
    assert [row.label for row in made.rows] == ["random-c0.1", "random-c0.3"]
    assert [cell.text for cell in made.column("minus")] == ["ours-c0.1", "ours-c0.3"]
    assert [cell.value for cell in made.column("ACC")] == [-2.0, -7.0]
    assert made.column("ACC")[0].interval == (-2.0, -2.0)
    assert made.column("common seeds")[0].seeds == (0, 1)


def test_a_namesake_without_a_tag_that_others_have_is_compared_like_all_others():
    results = [a_result(m, "cil", name=f"{m}-cil-seed0.json") for m in ("snv", "snv-paper", "sgd")]
    made = table("differences", results, against="snv")
    assert [(row.label, row.cells[0].text) for row in made.rows] == [
        ("sgd-cil", "snv-cil"),
        ("snv-paper-cil", "snv-cil"),
    ]


def test_runs_without_a_common_seed_have_no_difference():
    made = table("differences", [a_named("a", 0, 50.0), a_named("b", 1, 60.0, capacity=0.1)], against="a")
    assert made.rows[0].cells[1].text == "–"


def test_an_ablation_says_what_it_changes_and_by_how_much():
    results = [
        a_named("whole", 0, 60.0),
        a_named("small", 0, 50.0, capacity=0.1),
        a_result("sgd", accuracy=with_final(40.0, 40.0), name="plain-seed0.json"),
    ]
    made = table("ablations", results, against="whole")
    told = {row.label: (row.cells[0].text, row.cells[2].value) for row in made.rows}
    assert told == {"whole": ("–", None), "small": ("learner.capacity=0.1", -10.0), "plain": ("method=sgd", -20.0)}
    assert made.rows[0].label == "whole"


def test_a_reference_that_is_not_there_is_answered_with_those_that_are():
    with pytest.raises(UserError, match="Did you mean 'whole'"):
        table("ablations", [a_named("whole", 0, 60.0)], against="whol")
    with pytest.raises(UserError, match="no run called"):
        table("differences", [a_named("whole", 0, 60.0)], against="part")

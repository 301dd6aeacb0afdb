"""What is behind a number is told in full: the command, the settings, the machine, the costs."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
from table_records import a_result

from snv.report.run_details import known, run_data, triangle


def test_a_run_tells_its_settings_and_how_to_repeat_it():
    run = run_data(a_result("ewc", seed=3, strength=2.5), 0, None)
    assert run.command == (
        "snv run method=ewc scenario=til seed=3 data.name=cifar100 data.tasks=10 network.name=resnet18 "
        "network.width=16 train.epochs=20 train.lr=0.004 learner.strength=2.5 threads=1"
    )
    assert dict(run.config)["learner.strength"] == "2.5"
    assert run.status == "finished, 2 of 2 tasks"
    assert dict(run.facts)["ACC"] == "75.00"


def test_a_run_of_an_unknown_method_or_of_settings_of_old_says_why_it_cannot_be_repeated():
    run = run_data(a_result("of mine"), 0, None)
    assert run.command is None
    assert "of mine" in run.why_not
    assert "released" in run_data(a_result("snv", released=0.5), 0, None).why_not


def test_the_machine_and_what_was_typed_are_told_where_they_were_kept(tmp_path):
    result = a_result()
    assert run_data(result, 0, None).environment is None
    (tmp_path / "environment.json").write_text(json.dumps({"cpu": "a b", "cores": 2, "command": ["snv", "run", "x y"]}))
    kept = run_data(dataclasses.replace(result, path=tmp_path), 0, None)
    assert kept.environment == (("cpu", "a b"), ("cores", "2"))
    assert kept.typed == "snv run 'x y'"


def test_accuracies_are_told_of_what_was_learned_by_then():
    assert triangle(np.array([[90.12345, 3.0], [np.nan, 80.0]])) == ((90.123,), (None, 80.0))
    assert known(np.nan) is None


def test_a_run_that_has_learned_nothing_yet_has_no_matrix():
    result = a_result()
    result.record.tasks_done = 0
    run = run_data(result, 0, None)
    assert run.matrices == {}
    assert run.status == "finished, 0 of 2 tasks"

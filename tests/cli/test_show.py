"""`snv show`: what is known of a run, of this version or the one before."""

from __future__ import annotations

import contextlib
import io
import json
import shutil

import numpy as np
import pytest

from quick_run import QUICK
from snv.cli.show import cost_lines
from snv.files import read_json


def test_run_then_show_tells_the_whole_story(cli, tmp_path):
    out = tmp_path / "run"
    assert cli("run", "--method", "sgd", "--scenario", "til", "--seed", "0", "--out", out, *QUICK).code == 0
    told = json.loads(cli("show", out, "--json").out)
    assert {"method", "scenario", "data", "tasks", "seed", "status", "accuracy", "metrics", "cost"} <= told.keys()
    assert (told["method"], told["scenario"], told["data"], told["tasks"]) == ("sgd", "til", "digits", 5)
    assert told["status"] == "finished"
    assert set(told["metrics"]) == {"ACC", "AvgAcc", "BWT", "FWT", "forgetting", "PS", "CAP"}
    assert np.array(told["accuracy"], float).shape == (5, 5)
    assert told["metrics"]["ACC"] == pytest.approx(np.mean(told["accuracy"][-1]))
    assert set(told["cost"]["latency_ms"]) == {"1", "64"}
    assert told["cost"]["seconds"]["train"] > 0
    computed = told["cost"]["computed"]
    assert (computed["precision"], computed["device"], computed["threads"] > 0) == ("fp32", "cpu", True)
    assert told["cost"]["macs"]["train"] > told["cost"]["macs"]["evaluate"] > 0
    for name in ("config.json", "environment.json", "record.json", "log.jsonl", "costs.json"):
        assert (out / name).exists()
    assert len(list((out / "checkpoints").glob("task-*.safetensors"))) == 5
    table = cli("show", out).out
    assert "task 5" in table
    assert "ACC" in table
    assert "ms/image" in table
    assert f"in fp32 on cpu, {computed['cpu']}, threads: {computed['threads']}" in table
    assert "network in use           100.0 % of parameters, 100.0 % of neurons" in table
    assert "kept beyond the network  0.00 MiB" in table
    alone, in_64s = (told["cost"]["latency_ms"][batch] for batch in ("1", "64"))
    assert f"{alone:.2f} ms at batch 1, {in_64s:.2f} ms at batch 64" in table


def test_a_record_of_the_version_before_is_shown(cli, tmp_path):
    """It knew neither the bytes kept nor whose peak it had measured."""
    cli("run", "--out", tmp_path / "run", *QUICK)
    for name, new in (("record.json", "bytes_kept"), ("costs.json", "peak_of"), ("costs.json", "computed")):
        path = tmp_path / "run" / name
        stored = read_json(path)
        del stored[new]
        path.write_text(json.dumps(stored))
    told = cli("show", tmp_path / "run")
    assert told.code == 0, told.err
    assert "kept beyond" not in told.out and "computed" not in told.out
    assert "(of the process, with all it did before)" in told.out


def test_a_cost_that_says_only_some_things_is_shown_as_far_as_it_goes():
    whole = {"latency_ms": {"1": 2.0}, "parameters": 1000, "bytes_on_disk": 2**20, "seconds": {"train": 1.0}}
    assert {"latency per image", "parameters", "on disk"} <= cost_lines(whole).keys()
    for name, line in (("latency_ms", "latency per image"), ("parameters", "parameters"), ("bytes_on_disk", "on disk")):
        lines = cost_lines({key: value for key, value in whole.items() if key != name})
        assert line not in lines and len(lines) == len(cost_lines(whole)) - 1


def test_a_run_of_SNV_shows_what_its_valuations_said_of_themselves(cli, tmp_path):
    out = tmp_path / "run"
    cli("run", "--method", "snv", "--tasks", 2, "--epochs", 2, "network.width=4", "--out", out)
    record = json.loads(cli("show", out, "--json").out)
    assert [told["estimator"] for told in record["valuations"]] == ["gradient", "gradient"]
    assert all(isinstance(told["efficiency_ratio"], float) for told in record["valuations"])
    assert all(told["evaluations"] > 2 and told["stopped"] == "all draws done" for told in record["valuations"])
    assert len(record["cost"]["valuation_seconds"]) == 2
    assert sum(record["cost"]["valuation_seconds"]) == pytest.approx(record["cost"]["seconds"]["value"])
    shown = cli("show", out).out
    ratios = ", ".join(f"{told['efficiency_ratio']:.2f}" for told in record["valuations"])
    assert f"gradient: Σφ / (V(all) − V(∅)) = {ratios} task by task" in shown
    assert "Not certified" in shown


@pytest.mark.parametrize(("estimator", "has_ratio"), [("in-run", True), ("taylor", False)])
def test_other_values_tell_what_they_are_and_a_ratio_only_if_there_is_one(cli, tmp_path, estimator, has_ratio):
    out = tmp_path / "run"
    quick = ("--tasks", 2, "--epochs", 2, "network.width=4", f"learner.estimator={estimator}")
    cli("run", "--method", "snv", *quick, "--out", out)
    for told in json.loads(cli("show", out, "--json").out)["valuations"]:
        assert told["estimator"] == estimator
        assert (told["efficiency_ratio"] is not None) == has_ratio
        assert told["certificate"].startswith("Not certified")


def test_records_from_before_valuations_were_kept_are_still_shown(cli, tmp_path):
    out = tmp_path / "run"
    cli("run", "--method", "snv", "--tasks", 2, "--epochs", 2, "network.width=4", "--out", out)
    record, costs = (read_json(out / name) for name in ("record.json", "costs.json"))
    del record["valuations"], costs["valuation_seconds"]
    (out / "record.json").write_text(json.dumps(record))
    (out / "costs.json").write_text(json.dumps(costs))
    told = cli("show", out)
    assert told.code == 0, told.err
    assert "Σφ" not in told.out


def test_a_folder_without_runs_is_said_to_be_one(cli, tmp_path):
    told = cli("show", tmp_path)
    assert told.code == 2
    assert "There is no run in" in told.err


def test_classes_and_what_they_are_taken_for_are_shown(cli, tmp_path):
    out = tmp_path / "run"
    cli("run", *QUICK, "scenario=cil", "--out", out)
    details = json.loads(cli("show", out, "--json").out)["details"]
    told = cli("show", out, "--classes")
    assert "most often taken for" in told.out and "among the five best answers" in told.out
    assert f"{details['class_accuracy'][-1]:.1f}" in told.out
    told = cli("show", out, "--confusion")
    assert told.out.count("│") == 10 * 12, "ten classes by ten answers, and their names"


def test_of_many_classes_the_most_frequent_mistakes_are_shown(cli, tmp_path):
    from snv.cli.output import say_confusion
    from snv.runs import Details, Record

    confusion = np.diag(np.full(30, 50)) + np.triu(np.arange(900).reshape(30, 30) // 30, 1)
    record = Record.blank({"method": "sgd", "scenario": "cil", "seed": 0}, 1)
    record.details = Details((tuple(f"class {i}" for i in range(30)),), confusion, (None,))
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        say_confusion(record)
    rows = [line for line in out.getvalue().splitlines() if line.startswith("│")]
    assert len(rows) == 20
    assert rows[0].split("│")[1:4] == [" class 28 ", " class 29 ", "     28 "]


def test_a_record_without_answers_by_class_says_so(cli, tmp_path):
    out = tmp_path / "run"
    cli("run", *QUICK, "--out", out)
    record = read_json(out / "record.json")
    del record["details"]
    (out / "record.json").write_text(json.dumps(record))
    assert cli("show", out).code == 0
    told = cli("show", out, "--confusion")
    assert (told.code, told.err.count("\n")) == (2, 1)
    assert "no answers by class" in told.err


def test_one_run_is_kept_as_a_file(cli, tmp_path):
    cli("run", "--method", "snv", "--tasks", 2, "--epochs", 2, "network.width=4", "--out", tmp_path / "runs" / "a")
    told = cli("show", tmp_path / "runs", "--keep", tmp_path / "kept" / "a.json")
    assert told.code == 0 and told.out.endswith(f"kept: {tmp_path / 'kept' / 'a.json'}\n")
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {"a.json", "a.npz"}
    shutil.copytree(tmp_path / "runs" / "a", tmp_path / "runs" / "b")
    assert "here are 2. Name one run" in cli("show", tmp_path / "runs", "--keep", tmp_path / "b.json").err

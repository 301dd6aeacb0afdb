"""A run whose training goes wrong says so, goes on or stops, and ends with the same bits wherever it was killed."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import torch
from broken import __file__ as BROKEN
from test_resume import in_another_process, results

from snv.config import load_config
from snv.errors import DivergedError, UserError
from snv.files import load_state
from snv.learners.sgd import SGD
from snv.report.run_details import run_data
from snv.runs import find_runs, load_record, read_results, value_run
from snv.runs.run import run

SETTINGS = ["data.tasks=2", "data.classes=4", "data.per_class=40", "train.epochs=4", "train.lr=0.01"]
SETTINGS += ["train.batch_size=16", "network.name=mlp", "network.hidden=[32]"]


def config_of(method: str, *more: str):
    return load_config(None, [*SETTINGS, "threads=1", 'learner.common="none"', f"method={BROKEN}:{method}", *more])


@pytest.fixture(scope="module")
def mended(tmp_path_factory) -> Path:
    """A run of SNV in which two stages of the second task went wrong once each."""
    out = tmp_path_factory.mktemp("mended")
    run(config_of("Breaks"), out)
    return out


def test_what_went_wrong_is_in_the_record_the_log_and_the_reports(mended, cli):
    record = load_record(mended)
    assert record.status == "finished" and record.accuracy[1].min() > 75
    found = [(fault["task"], fault["stage"], fault["epoch"], fault["lr"]) for fault in record.warnings]
    assert found == [(2, stage, 2, pytest.approx(0.001)) for stage in ("dense", "consolidate")]
    assert json.loads((mended / "record.json").read_text())["warnings"] == record.warnings
    log = [json.loads(line) for line in (mended / "log.jsonl").read_text().splitlines()]
    assert [entry["lr"] for entry in log] == [0.01] * 4 + [0.01, 0.001] * 2
    shown = cli("show", mended).out
    assert shown.count("warning: Task 2 went wrong: in epoch 2 of stage") == 2
    facts = run_data(*read_results(find_runs(mended)), stream=0, neurons=None).facts
    assert [name for name, _ in facts].count("warning") == 2


def test_killed_after_each_lowering_of_the_rate_a_run_goes_on_to_the_same_bits(mended, tmp_path):
    for wanted in (1, 2):
        process = in_another_process(config_of("Breaks", "checkpoint_seconds=0"), tmp_path)
        try:
            while warnings_in(tmp_path) < wanted:
                assert process.is_alive()
                time.sleep(0.02)
        finally:
            process.kill()
            process.join()
        assert (tmp_path / "checkpoints" / "now.safetensors").exists(), "it was cut within the task"
    run(config_of("Breaks"), tmp_path)
    assert results(tmp_path) == results(mended)


def warnings_in(out: Path) -> int:
    try:
        return len(json.loads((out / "record.json").read_text()).get("warnings", []))
    except FileNotFoundError:
        return 0


def test_a_run_that_goes_wrong_twice_stops_with_the_reason_and_can_be_looked_at(tmp_path, cli):
    config = config_of("BreaksTwice")
    said = r"task 2 diverged: in epoch 2 of stage dense, .* Lower train\.lr .* the state when that epoch began"
    with pytest.raises(DivergedError, match=said):
        run(config, tmp_path)
    state = load_state(tmp_path / "checkpoints" / "now.safetensors")
    assert (state["task"], state["training"]["progress"]["epoch"], state["training"]["progress"]["step"]) == (1, 1, 0)
    assert all(x.isfinite().all() for x in state["learner"]["network"].values())
    assert all(x["exp_avg"].isfinite().all() for x in state["training"]["optimizer"]["state"].values())
    assert load_record(tmp_path).tasks_done == 1
    assert "warning: Task 2 went wrong" in cli("show", tmp_path).out
    with pytest.raises(DivergedError, match=said):  # asked again, it goes on, and comes to the same end
        run(config, tmp_path)
    assert load_record(tmp_path).warnings == state["record"]["warnings"]


def test_a_rate_that_is_far_too_high_is_one_sentence_on_the_command_line(tmp_path, cli):
    told = cli("run", "--method", "sgd", *SETTINGS, "train.lr=1e30", "--out", tmp_path / "run")
    assert told.code == 2
    assert told.err.count("error: Training task 1 diverged") == 1 and "Traceback" not in told.err


def test_a_healthy_run_has_nothing_to_say(tmp_path):
    record = run(load_config(None, [*SETTINGS, "threads=1", "method=snv", "scenario=cil"]), tmp_path)
    assert record.warnings == []
    assert "warnings" not in json.loads((tmp_path / "record.json").read_text())


def test_a_run_says_which_task_came_to_constant_answers(tmp_path, monkeypatch):
    config = load_config(None, [*SETTINGS, "threads=1", "method=sgd", "train.epochs=1", "data.per_class=170"])
    monkeypatch.setattr(SGD, "end_task", lambda learner, task: silence(learner) if task.id == 1 else None)
    (fault,) = run(config, tmp_path).warnings
    assert (fault["task"], fault["kind"]) == (2, "constant answers")


@torch.no_grad()
def silence(learner) -> None:
    for weight in learner.network.body.parameters():
        weight.zero_()


def test_values_cannot_follow_training_that_was_taken_back(mended):
    own = f"{BROKEN}:Breaks"
    assert len(value_run(mended, 1, "in-run", own_method=own)) == 32
    with pytest.raises(UserError, match=r"task 2 of .* went wrong in epoch 2 of stage dense .* Use --method gradient"):
        value_run(mended, 2, "in-run", own_method=own)

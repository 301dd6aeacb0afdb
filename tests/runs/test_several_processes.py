"""One run, several processes: one result on all of them, one directory, and an end that is the same for all."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from test_resume import results

from company import Company, of_two
from snv.config import load_config
from snv.errors import Interrupted, UserError
from snv.files import load_state
from snv.machine import ranks
from snv.machine.ranks import LostError
from snv.runs.run import run

SETTINGS = ["method=snv", "data.tasks=2", "data.classes=6", "data.per_class=60", "train.epochs=4", "train.lr=0.01"]
SETTINGS += ["network.name=convnet", "network.width=6", "threads=1", "train.precision=fp32"]


def go(rank: int, out: Path, *more: str) -> object:
    """A run as one of the processes sees it: its accuracies, and the marks it compared with those of the others."""
    marks: list[str] = []
    compare = ranks.require_alike

    def noting(mark: str, when: str) -> None:
        marks.append(mark)
        compare(mark, when)

    ranks.require_alike = noting
    try:
        record = run(load_config(overrides=[*SETTINGS, *more]), out)
    except Interrupted as stop:
        return {
            "stopped by": stop.signum,
            "at": load_state(out / "checkpoints" / "now.safetensors")["training"]["progress"]["step"],
        }
    return {"status": record.status, "accuracy": record.accuracy.tolist(), "marks": marks, "cost": record.cost}


def go_astray(rank: int, out: Path) -> object:
    """The second process changes the last bit of a weight once."""

    def progress(what: str, *_: object) -> None:
        return None

    from snv.training.loop import Training

    def touch(self: Training, original=Training.run) -> None:
        original(self)
        if rank == 1:
            with torch.no_grad():
                next(self.learner.network.parameters()).view(torch.int32).view(-1)[0] ^= 1

    Training.run = touch
    return run(load_config(overrides=[*SETTINGS, "method=sgd"]), out, progress)


def begun(out: Path) -> bool:
    return (out / "checkpoints" / "now.safetensors").exists()


def wait_until(condition, *arguments) -> None:
    limit = time.monotonic() + 120
    while not condition(*arguments):
        assert time.monotonic() < limit
        time.sleep(0.01)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that nothing disturbed, and what either process saw of it."""
    out = tmp_path_factory.mktemp("several") / "run"
    answers = of_two(go, out, "checkpoint_seconds=1000")
    assert all(isinstance(answer, dict) for answer in answers), answers
    return out, answers


def test_all_processes_hold_the_same_bits_after_every_task_certificates_among_them(finished):
    out, (one, other) = finished
    assert one["status"] == other["status"] == "finished"
    assert len(one["marks"]) == 2 and one["marks"] == other["marks"]
    assert one["accuracy"] == other["accuracy"]
    assert len(load_state(out / "checkpoints" / "task-002.safetensors")["learner"]["certificates"]) == 2


def test_the_costs_say_how_many_processes_there_were_and_the_config_does_not(finished):
    out, _ = finished
    assert json.loads((out / "costs.json").read_text())["ranks"] == [2]
    assert "ranks" not in (out / "config.json").read_text()


def test_training_is_counted_once_however_many_share_it(finished, tmp_path):
    run(load_config(overrides=SETTINGS), tmp_path / "alone")
    alone, shared = (json.loads((out / "record.json").read_text())["macs"] for out in (tmp_path / "alone", finished[0]))
    assert shared["train"] == pytest.approx(alone["train"], rel=0.01)


def test_a_process_that_is_killed_ends_the_others_with_a_sentence_and_the_run_goes_on_to_the_same_bits(
    finished, tmp_path
):
    out = tmp_path / "run"
    with Company(2, go, out, "checkpoint_seconds=0") as company:
        wait_until(begun, out)
        company.processes[1].kill()
        error = company.answer(0)
    assert isinstance(error, LostError) and "run the same command again to continue" in str(error)
    shutil.copytree(out, tmp_path / "other")
    assert [answer["status"] for answer in of_two(go, out)] == ["finished"] * 2
    assert results(out) == results(finished[0])

    record = run(load_config(overrides=SETTINGS), tmp_path / "other")  # one process goes on with what two began
    assert record.status == "finished" and record.metrics["BWT"] == 0.0
    assert record.cost["ranks"] == [2, 1]


def test_a_signal_to_one_process_stops_all_at_one_step(tmp_path):
    out = tmp_path / "run"
    with Company(2, go, out, "checkpoint_seconds=0") as company:
        wait_until(begun, out)
        os.kill(company.processes[1].pid, signal.SIGTERM)
        answers = company.answers()
    assert answers[0] == answers[1] and answers[0]["stopped by"] == signal.SIGTERM, answers
    assert json.loads((out / "record.json").read_text())["status"] != "finished"


def test_processes_that_drift_apart_are_stopped(tmp_path):
    answers = of_two(go_astray, tmp_path / "run")
    assert all("have drifted apart: after task 1, process 1 holds other bits" in str(answer) for answer in answers)
    assert not list((tmp_path / "run" / "checkpoints").glob("task-*"))


def test_what_is_wrong_is_said_by_all_before_anything_is_written(tmp_path):
    (tmp_path / "file").write_text("")
    answers = of_two(go, tmp_path / "file")
    assert all(isinstance(answer, UserError) and not isinstance(answer, LostError) for answer in answers), answers


@pytest.mark.parametrize("method", ["pec", "der++"])
def test_a_method_that_cannot_is_refused_in_one_sentence(method, monkeypatch, tmp_path):
    monkeypatch.setenv("WORLD_SIZE", "2")
    config = load_config(overrides=[f"method={method}", "scenario=cil"])
    with pytest.raises(UserError, match="cannot be trained by the 2 processes that torchrun started"):
        run(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_torchrun_trains_snv_on_digits_without_forgetting_and_as_well_as_one_process(tmp_path):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    ours = ["-m", "snv", "run", "--method", "snv", "--data", "digits", "--tasks", "3", "--epochs", "4", "--json"]
    command = [*torchrun, *ours, "train.precision=fp32", "--out", str(tmp_path / "shared")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    shared = json.loads(done.stdout)  # one process speaks
    settings = ["method=snv", "data.tasks=3", "train.epochs=4", "train.precision=fp32"]
    alone = run(load_config(overrides=settings), tmp_path / "alone")
    assert shared["metrics"]["BWT"] == 0.0 and shared["cost"]["ranks"] == [2]
    assert abs(shared["metrics"]["ACC"] - alone.metrics["ACC"]) <= 3
    assert "ranks" not in alone.cost

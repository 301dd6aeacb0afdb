"""Kill a run at any moment; the same call continues it and ends with the same bits."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import time
from pathlib import Path

import pytest

from snv.config import load_config
from snv.errors import Interrupted, UserError
from snv.files import load_state, read_json, save_state
from snv.learners import LEARNERS
from snv.runs.directory import load_log
from snv.runs.run import run
from snv.runs.value import value_run

FRESH = multiprocessing.get_context("forkserver")
FRESH.set_forkserver_preload(["snv.runs.run"])

SETTINGS = [
    "data.tasks=3",
    "data.classes=6",
    "train.epochs=6",
    "train.patience=3",
    "network.name=mlp",
    "network.hidden=[32]",
    "threads=1",
]


def results(directory: Path) -> dict[str, bytes]:
    """Everything that must be the same bit for bit: weights, matrix, log, values and masks of neurons."""
    files = [*sorted((directory / "checkpoints").glob("*")), directory / "log.jsonl", directory / "record.json"]
    files += directory.glob("neurons.npz")
    return {file.name: file.read_bytes() for file in files}


def in_another_process(config, out: Path, cache: Path | None = None) -> multiprocessing.Process:
    process = FRESH.Process(target=_run, args=(config, out, cache))
    process.start()
    return process


def _run(config, out: Path, cache: Path | None) -> None:
    if cache is not None:
        os.environ["SNV_CACHE"] = str(cache)
    run(config, out)


KILLED = {(method, scenario): 5 for method in ("sgd", "snv") for scenario in ("til", "cil")} | {
    (method, kind.card.scenarios[-1]): 2 for method, kind in LEARNERS.items() if method not in ("sgd", "snv", "joint")
}


@pytest.mark.parametrize(("method", "scenario"), KILLED, ids=lambda part: part)
def test_random_kills_leave_no_trace(method, scenario, tmp_path):
    """Twenty of two methods, one of them in stages, in both scenarios; two of every other method."""
    overrides = [*SETTINGS, f"method={method}", f"scenario={scenario}", "seed=3"]
    reference = tmp_path / "uninterrupted"
    start = time.monotonic()
    process = in_another_process(load_config(None, overrides), reference)
    process.join()
    duration = time.monotonic() - start
    assert process.exitcode == 0
    expected = results(reference)
    draw = random.Random(f"{method}-{scenario}")
    for k in range(KILLED[method, scenario]):
        out = tmp_path / f"killed-{k}"
        # saving at every step makes many kills land in the middle of a write
        config = load_config(None, [*overrides, f"checkpoint_seconds={draw.choice([0, 0, 0.05])}"])
        process = in_another_process(config, out)
        time.sleep(draw.uniform(0.02, 1.0) * duration)
        process.kill()
        process.join()
        process = in_another_process(config, out)
        process.join()
        assert process.exitcode == 0
        assert results(out) == expected, f"kill {k}"
        assert not list(out.rglob("*.tmp"))


def test_a_run_killed_again_and_again_still_ends_with_the_same_bits(tmp_path):
    overrides = [*SETTINGS, "method=sgd", "scenario=cil", "checkpoint_seconds=0"]
    run(load_config(None, overrides), tmp_path / "whole")
    out, kills = tmp_path / "cut", 0
    while kills < 8:
        process = in_another_process(load_config(None, overrides), out)
        time.sleep(0.15 + 0.05 * kills)
        process.kill()
        process.join()
        kills += 1
    run(load_config(None, overrides), out)
    assert results(out) == results(tmp_path / "whole")


@pytest.mark.parametrize("method", ["snv", "joint"])
def test_a_run_that_stops_after_a_task_goes_on_to_the_same_bits(method, tmp_path):
    config = load_config(None, [*SETTINGS, f"method={method}", "scenario=cil"])
    run(config, tmp_path / "whole")
    stopped = run(config, tmp_path / "cut", stop_after=1)
    assert (stopped.status, stopped.tasks_done) == ("unfinished", 1)
    assert [path.name for path in (tmp_path / "cut" / "checkpoints").iterdir()] == ["task-001.safetensors"]
    assert run(config, tmp_path / "cut", stop_after=1).tasks_done == 1, "there is nothing to do"
    run(config, tmp_path / "cut", stop_after=2)
    assert run(config, tmp_path / "cut", stop_after=99).status == "finished"
    assert results(tmp_path / "cut") == results(tmp_path / "whole")


def test_a_finished_run_is_not_repeated(tmp_path):
    config = load_config(None, [*SETTINGS, "method=sgd"])
    first = run(config, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    again = run(config, tmp_path)
    assert json.dumps(again.results()) == json.dumps(first.results())
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}


def test_two_processes_on_one_directory_are_one_too_many(tmp_path):
    config = load_config(None, [*SETTINGS, "method=sgd", "train.epochs=200", "train.patience=0"])
    process = in_another_process(config, tmp_path)
    try:
        while not (tmp_path / "owner.json").exists():
            assert process.is_alive()
            time.sleep(0.01)
        with pytest.raises(UserError, match=rf"in use by process {process.pid} .* choose another --out"):
            run(config, tmp_path)
    finally:
        process.kill()
        process.join()


def as_written_by_0_1(directory: Path, **changes: object) -> None:
    """Give a run's config the settings that snv had in its first version."""
    path = directory / "config.json"
    config = read_json(path)
    config["learner"] |= {"consolidate": True, "norm": "per-task", "answer": "subnetwork", "scope": "task"}
    config["learner"] |= {"cumulative": True, "released": 0.0} | changes
    path.write_text(json.dumps(config))


def test_an_unfinished_run_of_the_version_before_continues_to_the_same_bits(tmp_path):
    config = load_config(None, [*SETTINGS, "method=snv"])
    run(config, tmp_path / "whole")
    out = tmp_path / "cut"
    with pytest.raises(Interrupted):
        run(config, out, lambda what, *_: signal.raise_signal(signal.SIGTERM) if "task 2" in what else None)
    as_written_by_0_1(out)
    run(config, out)
    assert results(out) == results(tmp_path / "whole")
    assert "consolidate" not in json.loads((out / "config.json").read_text())["learner"]


def test_a_finished_run_of_the_version_before_is_returned_and_its_neurons_can_be_valued(tmp_path):
    config = load_config(None, [*SETTINGS, "method=snv", "train.epochs=2", "data.tasks=2", "data.classes=4"])
    before = run(config, tmp_path)
    as_written_by_0_1(tmp_path)
    assert run(config, tmp_path).results() == before.results()
    assert len(value_run(tmp_path, 1, draws=2)) == 32


def test_a_run_of_the_version_before_with_a_switch_that_is_gone_is_refused_in_one_sentence(tmp_path):
    config = load_config(None, [*SETTINGS, "method=snv", "train.epochs=2", "data.tasks=2", "data.classes=4"])
    run(config, tmp_path)
    as_written_by_0_1(tmp_path, released=0.05)
    for again in (lambda: run(config, tmp_path), lambda: value_run(tmp_path, 1)):
        with pytest.raises(UserError, match=r"learner\.released=0\.05, which snv has no more"):
            again()


def test_a_run_begun_before_valuations_were_kept_is_continued(tmp_path):
    config = load_config(None, [*SETTINGS, "method=snv", "data.tasks=2", "train.epochs=3"])
    whole = run(config, tmp_path)
    (tmp_path / "checkpoints" / "task-002.safetensors").unlink()
    first = tmp_path / "checkpoints" / "task-001.safetensors"
    state = load_state(first)
    del state["learner"]["valuations"], state["record"]["valuations"]
    save_state(first, state)
    for name, missing in (("record.json", "valuations"), ("costs.json", "valuation_seconds")):
        known = read_json(tmp_path / name)
        del known[missing]
        (tmp_path / name).write_text(json.dumps(known | ({"status": "unfinished"} if name == "record.json" else {})))
    again = run(config, tmp_path)
    assert again.status == "finished"
    assert again.valuations == [None, whole.valuations[1]]
    assert again.accuracy.tolist() == whole.accuracy.tolist()


def test_a_run_that_pauses_after_some_epochs_and_goes_on_ends_with_the_same_bits(tmp_path):
    config = load_config(None, [*SETTINGS, "method=snv", "data.tasks=2", "data.classes=4", "train.epochs=4"])
    run(config, tmp_path / "whole")
    for epochs in (1, 4, 6):  # within a stage, at the end of a task, within a task
        paused = run(config, tmp_path / "parts", pause_after=epochs)
        assert paused.status == "unfinished"
        assert len(load_log(tmp_path / "parts")) == epochs
    assert paused.tasks_done == 1
    assert run(config, tmp_path / "parts").status == "finished"
    assert results(tmp_path / "parts") == results(tmp_path / "whole")

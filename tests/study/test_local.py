"""Local processes do what this one does; killed, they are noticed, and asked to stop, they save."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from here import study_in, written

from snv.machine.devices import Resources
from snv.runs.run import run
from snv.study import LocalWorkers, Work, bench, cores, expand

SLOW = f"{Path(__file__).with_name('slow.py')}:Slow"
LONG = f"""
[groups.tiny]
streams = ["stream.toml"]
methods = ["{SLOW}"]
settings = {{ train.epochs = 12, train.patience = 0, checkpoint_seconds = 0, keep = "all" }}
seeds = [0]
"""
NAME = "Slow-til-seed0"


def until(true, seconds: float = 300.0) -> None:
    """Wait for something that will be so."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def files(directory: Path) -> dict[str, bytes]:
    """All that must be the same bit for bit."""
    found = [*sorted((directory / "checkpoints").glob("task-*")), directory / "log.jsonl", directory / "record.json"]
    return {path.name: path.read_bytes() for path in found}


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    run(expand(study_in(folder, LONG, SLOW)).jobs[0].config, folder / "run")
    return folder / "run"


def test_a_killed_process_is_replaced_and_its_run_ends_with_the_same_bits(tmp_path, whole):
    killed: list[int] = []

    def kill(board) -> None:
        if not killed and (board[0].directory / "checkpoints" / "now.safetensors").exists():
            killed.extend(workers.pids())
            os.kill(killed[0], signal.SIGKILL)

    with LocalWorkers(1) as workers:
        done = bench(
            study_in(tmp_path, LONG, SLOW), tmp_path / "out", runs=tmp_path / "runs", workers=workers, watch=kill
        )
        assert killed
        assert workers.pids() != killed
    assert [(standing.state, standing.lost) for standing in done] == [("done", 1)]
    assert files(done[0].directory) == files(whole)


def test_a_study_that_is_stopped_saves_and_goes_on_to_the_same_bits(tmp_path, whole):
    study = written(tmp_path, LONG)
    command = [sys.executable, "-m", "snv.cli.main", "bench", str(study), "--jobs", "1", "--own-method", SLOW]
    command += ["--out", str(tmp_path / "out"), "--runs", str(tmp_path / "runs")]
    directory = tmp_path / "runs" / "tiny" / NAME
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            until(lambda: (directory / "checkpoints" / "now.safetensors").exists())
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=300)
        finally:
            process.kill()
    assert process.returncode == 128 + signal.SIGINT, out + err
    assert "Run the same command again to continue" in err
    assert not (directory / "owner.json").exists()
    assert not list((tmp_path / "out").glob("**/*.json"))
    again = bench(study_in(tmp_path, LONG, SLOW), tmp_path / "out", runs=tmp_path / "runs", jobs=1)
    assert [standing.state for standing in again] == ["done"]
    assert files(directory) == files(whole)


def test_every_process_has_as_many_threads_as_its_run_takes(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    job = expand(study_in(tmp_path)).jobs[0]
    with LocalWorkers(1) as workers:
        assert workers.room() == 1
        workers.submit(Work("k", job.config, tmp_path / "run"))
        assert workers.room() == 0
        heard: list[str] = []
        until(lambda: heard.extend(news.kind for news in workers.news(0.2)) or "done" in heard)
        assert workers.room() == 1
        workers.submit(Work("k2", dataclasses.replace(job.config, resources=Resources(cpus=2)), tmp_path / "run2"))
        until(lambda: heard.extend(news.kind for news in workers.news(0.2)) or heard.count("done") == 2)
    for name, threads in (("run", 1), ("run2", 2)):
        assert json.loads((tmp_path / name / "environment.json").read_text())["threads"] == threads
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert workers.pids() == []


def test_there_are_as_many_processes_as_cores_unless_told_otherwise():
    assert LocalWorkers().n == cores() >= 1
    assert LocalWorkers(3).n == 3


@pytest.mark.slow
def test_two_studies_in_one_folder_share_the_work_and_do_nothing_twice(tmp_path):
    text = LONG.replace("seeds = [0]", "seeds = [0, 1, 2, 3, 4, 5]")
    study = written(tmp_path, text)
    command = [sys.executable, "-m", "snv.cli.main", "bench", str(study), "--jobs", "1", "--own-method", SLOW]
    command += ["--out", str(tmp_path / "out"), "--runs", str(tmp_path / "runs")]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    told = [process.communicate(timeout=600) for process in both]
    assert [process.returncode for process in both] == [0, 0], told
    mine, yours = (set(re.findall(r"seed(\d): ACC .+ s$", out, flags=re.MULTILINE)) for out, _ in told)
    assert mine
    assert yours
    assert mine.isdisjoint(yours)
    assert mine | yours == set("012345")
    for seed in range(6):
        log = (tmp_path / "runs" / "tiny" / f"Slow-til-seed{seed}" / "log.jsonl").read_text()
        assert log.count("\n") == 24


def test_a_process_that_hangs_is_noticed_ended_and_its_run_ends_with_the_same_bits(tmp_path, whole):
    """Stopped, it holds its lock and answers no signal; only that its signs of life stay away tells."""
    stopped: list[int] = []

    def stop(board) -> None:
        if not stopped and (board[0].directory / "checkpoints" / "now.safetensors").exists():
            stopped.extend(workers.pids())
            os.kill(stopped[0], signal.SIGSTOP)

    with LocalWorkers(1, hang_after=5) as workers:
        done = bench(
            study_in(tmp_path, LONG, SLOW), tmp_path / "out", runs=tmp_path / "runs", workers=workers, watch=stop
        )
        assert stopped
        assert not Path(f"/proc/{stopped[0]}").exists()
    assert [(standing.state, standing.lost) for standing in done] == [("done", 1)]
    assert files(done[0].directory) == files(whole)


def test_a_process_that_is_slow_but_alive_is_left_alone(tmp_path):
    """A step that takes far longer than the limit: signs of life do not depend on it."""
    asleep = SLOW.replace("Slow", "Asleep")
    text = LONG.replace(SLOW, asleep).replace("epochs = 12", "epochs = 1")
    job = expand(study_in(tmp_path, text, asleep)).jobs[0]
    with LocalWorkers(1, hang_after=3) as workers:
        workers.submit(Work("k", job.config, tmp_path / "run"))
        heard: list[str] = []
        until(lambda: heard.extend(news.kind for news in workers.news(0.2)) or {"done", "lost", "failed"} & {*heard})
    assert heard[-1] == "done"

"""Ctrl-C and SIGTERM at any moment save and stop; the same call goes on to the same bits."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from snv.config import load_config
from snv.runs.run import run

SETTINGS = ["method=sgd", "data.tasks=3", "data.classes=6", "train.epochs=30", "train.patience=0", "network.name=mlp"]
SETTINGS += ["network.hidden=[16]", "threads=1"]


def started(out: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "snv.cli.main", "run", *SETTINGS, "--out", str(out)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def bits(out: Path) -> dict[str, bytes]:
    files = [*(out / "checkpoints").glob("*"), out / "record.json", out / "log.jsonl"]
    return {file.name: file.read_bytes() for file in files}


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "run"
    run(load_config(None, SETTINGS), out)
    return out


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT], ids=lambda s: s.name)
def test_asked_to_stop_at_a_random_moment_a_run_saves_and_goes_on_to_the_same_bits(signum, whole, tmp_path):
    process = started(tmp_path)
    try:
        while not (tmp_path / "config.json").exists() and process.poll() is None:
            time.sleep(0.01)
        time.sleep(random.uniform(0, 1))
        process.send_signal(signum)
        _, err = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode in (0, 128 + signum), err
    if process.returncode != 0:
        assert "everything so far is in" in err and "Run the same command again to continue" in err
    assert not (tmp_path / "owner.json").exists(), "the directory is free"
    run(load_config(None, SETTINGS), tmp_path)
    assert bits(tmp_path) == bits(whole)


def test_of_two_processes_started_at_once_on_one_directory_one_does_the_run_and_the_other_is_refused(whole, tmp_path):
    both = [started(tmp_path / "run") for _ in range(2)]
    try:
        told = [process.communicate(timeout=600)[1] for process in both]
    finally:
        for process in both:
            process.kill()
    codes = sorted(process.returncode for process in both)
    if codes != [0, 0]:  # unless one was done before the other looked
        assert codes == [0, 2], told
        assert sum("is in use by process" in err for err in told) == 1, told
    assert bits(tmp_path / "run") == bits(whole)


JUMPING = """
import sys, time
real, calls, YEAR = time.time, [0], 365 * 86400.0

def jumping() -> float:
    calls[0] += 1
    return real() + (YEAR, -YEAR, 40 * YEAR, 0.0)[calls[0] % 4]

time.time, time.time_ns = jumping, lambda: int(jumping() * 1e9)
from pathlib import Path
from snv.config import load_config
from snv.runs.run import run

record = run(load_config(None, sys.argv[2:]), Path(sys.argv[1]))
seconds = record.cost["seconds"]
assert all(0 <= value < 600 for value in seconds.values()), seconds
assert all(0 < value < 60_000 for value in record.cost["latency_ms"].values()), record.cost
print(sum(seconds.values()))
"""


def test_a_clock_that_jumps_by_years_changes_no_result_and_no_duration(whole, tmp_path):
    """Back and forth at every look at it; files of a run that was begun may be of the future, too."""
    out = tmp_path / "run"
    run(load_config(None, SETTINGS), out, stop_after=1)
    for path in out.rglob("*"):
        os.utime(path, (4e9, 4e9))
    told = subprocess.run([sys.executable, "-c", JUMPING, str(out), *SETTINGS], capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    assert 0 < float(told.stdout) < 600
    assert bits(out) == bits(whole)


def test_no_duration_is_taken_from_a_clock_that_people_set():
    source = Path(__file__).parents[2] / "src" / "snv"
    for path in source.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "time.time(" not in text and "datetime.now(" not in text, path

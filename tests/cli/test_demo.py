"""`snv demo`: every quick method side by side, and Ctrl-C loses nothing."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from snv.cli import demo
from snv.learners import LEARNERS
from snv.runs import Record


def test_the_demo_shows_every_quick_method_in_every_scenario_it_can_do(monkeypatch, tmp_path):
    monkeypatch.setattr(LEARNERS["ewc"], "card", dataclasses.replace(LEARNERS["ewc"].card, quick=False))
    shown = [(config.method, config.scenario) for config, _ in demo.jobs(tmp_path, 0)]
    assert shown == [(name, s) for name, kind in LEARNERS.items() if kind.card.quick for s in kind.card.scenarios]
    assert ("sgd", "cil") in shown
    assert ("ewc", "cil") not in shown


def test_asked_for_all_the_demo_shows_all(tmp_path):
    shown = [(config.method, config.scenario) for config, _ in demo.jobs(tmp_path, 0, every=True)]
    assert shown == [(name, s) for name, kind in LEARNERS.items() for s in kind.card.scenarios]


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_processes_and_the_same_command_continues(tmp_path, signum):
    command = [sys.executable, "-m", "snv.cli.main", "demo", "--out", str(tmp_path / "demo")]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        while not list(tmp_path.glob("demo/*/config.json")):
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        children = descendants(process.pid)
        assert children
        process.send_signal(signum)
        _, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 128 + signum
    assert [line for line in err.splitlines() if line and not line.startswith("runs: ")] == [
        f"Stopped; everything so far is in {tmp_path / 'demo'}. Run the same command again to continue."
    ]
    until = time.monotonic() + 20  # the helper of multiprocessing leaves after its parent
    while any(alive(pid) for pid in children) and time.monotonic() < until:
        time.sleep(0.1)
    assert not [pid for pid in children if alive(pid)]


def descendants(pid: int) -> list[int]:
    told = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(word) for word in told.stdout.split()]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_for_machines_the_demo_is_one_object_per_run(cli, tmp_path, monkeypatch):
    records = []
    for method in ("sgd", "joint"):
        record = Record.blank({"method": method, "scenario": "til", "seed": 0, "data": {"name": "digits"}}, 1)
        record.accuracy[:], record.untrained[:], record.tasks_done = 90, 50, 1
        records.append(record)
    monkeypatch.setattr("snv.cli.side_by_side.run_all", lambda *_: records)
    monkeypatch.setattr(demo, "jobs", lambda *_: [(None, tmp_path / "sgd"), (None, tmp_path / "joint")])
    told = cli("demo", "--out", tmp_path, "--json")
    assert [json.loads(line)["method"] for line in told.out.splitlines()] == ["sgd", "joint"]

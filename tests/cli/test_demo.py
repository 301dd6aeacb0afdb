"""The demo: every quick method, side by side in processes, resumable, with one sentence for what goes wrong."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time

import pytest

from snv.cli import demo, side_by_side
from snv.config import load_config
from snv.errors import UserError
from snv.learners import LEARNERS

TINY = ["data.tasks=2", "data.classes=4", "train.epochs=1", "network.name=mlp", "network.hidden=[8]", "threads=1"]


def job(out, *overrides):
    return load_config(None, [*TINY, *overrides]), out


def test_the_demo_shows_every_quick_method_in_every_scenario_it_can_do(monkeypatch, tmp_path):
    monkeypatch.setattr(LEARNERS["ewc"], "card", dataclasses.replace(LEARNERS["ewc"].card, quick=False))
    shown = [(config.method, config.scenario) for config, _ in demo.jobs(tmp_path, 0)]
    assert shown == [(name, s) for name, kind in LEARNERS.items() if kind.card.quick for s in kind.card.scenarios]
    assert ("sgd", "cil") in shown
    assert ("ewc", "cil") not in shown


def test_runs_side_by_side_give_the_records_of_runs_one_after_the_other(tmp_path):
    from snv.runs.run import run

    jobs = [job(tmp_path / method, f"method={method}") for method in ("sgd", "joint", "lwf")]
    told = []
    records = side_by_side.run_all(jobs, lambda *progress: told.append(progress))
    for (config, out), record in zip(jobs, records, strict=True):
        alone = run(config, tmp_path / "alone" / out.name)
        assert (record.config["method"], record.status) == (config.method, "finished")
        assert record.results().keys() == alone.results().keys()
        assert (out / "record.json").read_bytes() == (tmp_path / "alone" / out.name / "record.json").read_bytes()
    assert told[0] == ("runs", 0, 3)
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)


def test_finished_runs_are_not_repeated(tmp_path, monkeypatch):
    jobs = [job(tmp_path / "a"), job(tmp_path / "b", "seed=1")]
    side_by_side.run_all(jobs)
    monkeypatch.setattr(side_by_side, "_work_off", lambda *_: pytest.fail("a finished run was repeated"))
    assert [record.status for record in side_by_side.run_all(jobs)] == ["finished", "finished"]


def test_a_finished_run_with_other_settings_is_refused(tmp_path):
    side_by_side.run_all([job(tmp_path / "a")])
    with pytest.raises(UserError, match="seed was 0 and is now 1"):
        side_by_side.run_all([job(tmp_path / "a", "seed=1")])


def test_the_error_of_a_run_is_its_one_sentence(tmp_path):
    with pytest.raises(UserError, match=r"nowhere"):
        side_by_side.run_all([job(tmp_path / "a"), job(tmp_path / "b", f"data.name=folder:{tmp_path / 'nowhere'}")])


def test_a_process_that_dies_is_named_by_its_run(tmp_path, monkeypatch):
    monkeypatch.setattr(side_by_side, "_work", die)
    with pytest.raises(UserError, match=r"The process that ran .*a ended with code 9"):
        side_by_side.run_all([job(tmp_path / "a")])


def die(_connection):
    os._exit(9)


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
    assert err.strip().splitlines() == [
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

"""A study whose folders are at a URL is worked off as one whose folders are here."""

from __future__ import annotations

import json
import signal

import pytest
from here import Here, study_in

from snv.errors import Interrupted
from snv.study import MirroredWorkers, at_hand, bench, failures, how_they_stand

BROKEN = """
[groups.tiny]
streams = ["stream.toml"]
[groups.tiny.variants]
fine = {}
broken = { data.tasks = 9 }
"""


def done_at(folder, text: str, workers, retry: bool = False):
    """A study in a store in a folder, by workers of this process."""
    study, out, runs = study_in(folder, text), (folder / "store" / "out").as_uri(), (folder / "store" / "runs").as_uri()
    with at_hand(out) as out_here, at_hand(runs, how_they_stand, failures) as runs_here:
        working = MirroredWorkers(workers, runs_here, runs)
        return bench(study, out_here, runs=runs_here, workers=working, retry=retry)


def test_records_runs_and_failures_are_at_the_url_and_nothing_is_done_twice(tmp_path):
    workers = Here()
    assert [standing.state for standing in done_at(tmp_path, BROKEN, workers)] == ["done", "failed"]
    store = tmp_path / "store"
    assert json.loads((store / "out" / "tiny" / "stream-fine-seed0.json").read_text())["status"] == "finished"
    assert (store / "runs" / "tiny" / "stream-fine-seed0" / "checkpoints" / "task-002.safetensors").exists()
    assert "9 tasks" in (store / "runs" / "tiny" / "stream-broken-seed0.failed.json").read_text()
    assert [standing.state for standing in done_at(tmp_path, BROKEN, workers)] == ["done", "failed"]
    assert workers.taken == ["stream-fine-seed0", "stream-broken-seed0"]
    (tmp_path / "stream.toml").touch()
    done_at(tmp_path, BROKEN, workers, retry=True)
    assert workers.taken == ["stream-fine-seed0", "stream-broken-seed0", "stream-broken-seed0"]


def test_whoever_is_stopped_is_told_the_url(tmp_path):
    class Interrupting(Here):
        def outcome(self, work):
            signal.raise_signal(signal.SIGTERM)
            return super().outcome(work)

    with pytest.raises(Interrupted) as stopped:
        done_at(tmp_path, BROKEN, Interrupting())
    assert str(stopped.value) == f"{(tmp_path / 'store' / 'runs').as_uri()}/tiny"


def test_a_folder_of_this_machine_is_taken_as_it_is(tmp_path):
    with at_hand(tmp_path / "runs") as runs:
        assert runs == tmp_path / "runs"
    assert not runs.exists()

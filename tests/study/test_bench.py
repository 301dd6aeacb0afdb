"""A study is worked off once, whatever fails, dies or is done by others meanwhile."""

from __future__ import annotations

import json
import signal
import sys

import pytest
from here import Here, study_in

from snv.errors import Interrupted
from snv.files import read_json
from snv.runs import RunDirectory
from snv.runs.run import run
from snv.study import Ledger, News, bench, carry_out, expand, work_off

BROKEN = """
[groups.tiny]
streams = ["stream.toml"]
[groups.tiny.variants]
first = {}
broken = { data.tasks = 9 }
last = { train.epochs = 2 }
"""


@pytest.fixture
def places(tmp_path):
    return {"out": tmp_path / "out", "runs": tmp_path / "runs"}


def states(standings) -> dict[str, str]:
    return {standing.job.name: standing.state for standing in standings}


def test_every_run_is_done_and_its_record_is_that_of_the_run_alone(tmp_path, places):
    study = study_in(tmp_path)
    done = bench(study, **places, workers=Here())
    assert states(done) == {"sgd-til-seed0": "done", "ewc-til-seed0": "done"}
    for standing in done:
        alone = json.loads(json.dumps(run(standing.job.config, tmp_path / "alone" / standing.job.name).as_json()))
        kept = read_json(places["out"] / f"{standing.job.place}.json")
        assert {key: kept[key] for key in kept if key != "cost"} == {key: alone[key] for key in alone if key != "cost"}


def test_what_is_done_is_not_done_again(tmp_path, places):
    study, workers = study_in(tmp_path), Here()
    bench(study, **places, workers=workers)
    again = bench(study, **places, workers=workers)
    assert states(again) == {"sgd-til-seed0": "done", "ewc-til-seed0": "done"}
    assert workers.taken == ["sgd-til-seed0", "ewc-til-seed0"]


def test_a_run_that_two_groups_have_is_done_once(tmp_path, places):
    text = "[groups.a]\nstreams = ['stream.toml']\n[groups.b]\nstreams = ['stream.toml']\nsettings = { threads = 1 }\n"
    workers = Here()
    done = bench(study_in(tmp_path, text), **places, workers=workers)
    assert [(standing.job.group, standing.state) for standing in done] == [("a", "done"), ("b", "done")]
    assert len(workers.taken) == 1
    assert done[0].record == done[1].record


def test_a_failure_stops_nothing_else_and_is_tried_again_only_on_request(tmp_path, places):
    study, workers = study_in(tmp_path, BROKEN), Here()
    found = bench(study, **places, workers=workers)
    assert list(states(found).values()) == ["done", "failed", "done"]
    assert "9 tasks need at least 9 classes" in found[1].reason
    assert len(workers.taken) == 3
    assert list(states(bench(study, **places, workers=workers)).values()) == ["done", "failed", "done"]
    assert len(workers.taken) == 3
    assert bench(study, **places, workers=workers, retry=True)[1].state == "failed"
    assert len(workers.taken) == 4


def test_what_succeeds_at_last_leaves_no_failure_behind(tmp_path, places):
    study = study_in(tmp_path)
    broken = Breaking("sgd-til-seed0", RuntimeError("no such luck"))
    failed = bench(study, **places, workers=broken)[0]
    assert (failed.state, failed.reason) == ("failed", "RuntimeError: no such luck")
    assert "Traceback" in json.loads(failed.failure.read_text())["details"]
    assert states(bench(study, **places, workers=Here(), retry=True))["sgd-til-seed0"] == "done"
    assert not failed.failure.exists()


class Breaking(Here):
    """Breaks one run by an error nobody expects."""

    def __init__(self, name: str, error: Exception) -> None:
        super().__init__()
        self.name, self.error = name, error

    def outcome(self, work):
        if work.directory.name != self.name:
            return carry_out(work)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("snv.study.workers.run", self._break)
            return carry_out(work)

    def _break(self, *_, **__):
        raise self.error


class Mortal(Here):
    """Dies under the first jobs."""

    def __init__(self, deaths: int) -> None:
        super().__init__()
        self.deaths = deaths

    def outcome(self, work):
        self.deaths -= 1
        return News(work.key, "lost", "It died.") if self.deaths >= 0 else carry_out(work)


@pytest.mark.parametrize(("deaths", "state"), [(1, "done"), (2, "failed")])
def test_a_run_whose_process_dies_is_tried_once_more(tmp_path, places, deaths, state):
    workers = Mortal(deaths)
    found = bench(study_in(tmp_path), **places, workers=workers)
    assert states(found) == {"sgd-til-seed0": state, "ewc-til-seed0": "done"}
    assert workers.taken == ["sgd-til-seed0", "sgd-til-seed0", "ewc-til-seed0"]
    assert found[0].reason == ("It died." if state == "failed" else "")


def test_a_run_in_use_is_left_alone_and_looked_at_again_at_the_end(tmp_path, places, monkeypatch):
    monkeypatch.setattr(sys.modules["snv.study.bench"], "AGAIN", 0.0)
    jobs = expand(study_in(tmp_path)).jobs
    standings = Ledger(**places).survey(jobs)
    told: list[str] = []
    with_lock = RunDirectory(standings[0].directory).locked()
    with_lock.__enter__()

    class Freed(Here):
        def outcome(self, work):
            news = super().outcome(work)
            if work.directory.name == "ewc-til-seed0":
                told.append(standings[0].state)
                with_lock.__exit__(None, None, None)
            return news

    workers = Freed()
    assert states(work_off(standings, workers=workers)) == {"sgd-til-seed0": "done", "ewc-til-seed0": "done"}
    assert told == ["elsewhere"]
    assert workers.taken == ["ewc-til-seed0", "sgd-til-seed0"]


def test_what_another_process_finished_meanwhile_is_not_done_again(tmp_path, places):
    jobs = expand(study_in(tmp_path)).jobs
    ours, workers = Ledger(**places).survey(jobs), Here()
    bench(study_in(tmp_path), **places, workers=Here())
    assert set(states(work_off(ours, workers=workers)).values()) == {"done"}
    assert workers.taken == []


def test_a_finished_directory_without_a_record_only_gets_its_record(tmp_path, places):
    job = expand(study_in(tmp_path)).jobs[0]
    run(job.config, places["runs"] / "by hand")
    before = (places["runs"] / "by hand" / "log.jsonl").stat().st_mtime_ns
    found = bench(study_in(tmp_path), **places, workers=Here(), only=["sgd-*"])
    assert states(found) == {"sgd-til-seed0": "done"}
    assert (places["runs"] / "by hand" / "log.jsonl").stat().st_mtime_ns == before


def test_a_signal_stops_the_workers_and_is_told(tmp_path, places):
    class Interrupting(Here):
        def outcome(self, work):
            signal.raise_signal(signal.SIGTERM)
            return carry_out(work)

    workers = Interrupting()
    with pytest.raises(Interrupted) as stopped:
        bench(study_in(tmp_path), **places, workers=workers)
    assert stopped.value.signum == signal.SIGTERM
    assert workers.stopped
    assert workers.taken == ["sgd-til-seed0"]


def test_whoever_watches_sees_every_run_from_beginning_to_end(tmp_path, places):
    seen: list[tuple[str, ...]] = []
    bench(study_in(tmp_path), **places, workers=Here(), watch=lambda board: seen.append(tuple(s.state for s in board)))
    assert seen[0] == ("to do", "to do")
    assert seen[-1] == ("done", "done")

"""What is there is known by what it holds, and what is not there is to do."""

from __future__ import annotations

import json

import pytest
from here import study_in

from snv.runs import RunDirectory
from snv.runs.run import run
from snv.study import Ledger, expand
from snv.study.ledger import look, note_failure


@pytest.fixture
def jobs(tmp_path):
    return expand(study_in(tmp_path)).jobs


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "out", tmp_path / "runs")


def states(ledger, jobs) -> list[str]:
    return [standing.state for standing in Ledger(ledger.out, ledger.runs).survey(jobs)]


def test_at_first_everything_is_to_do_under_its_own_name(ledger, jobs):
    found = ledger.survey(jobs)
    assert {standing.state for standing in found} == {"to do"}
    assert found[0].record == ledger.out / "tiny" / "sgd-til-seed0.json"
    assert found[0].directory == ledger.runs / "tiny" / "sgd-til-seed0"
    assert not ledger.out.exists()
    assert not ledger.runs.exists()


def test_a_record_is_recognised_whatever_it_is_called_and_wherever_it_is(ledger, jobs, tmp_path):
    record = run(jobs[1].config, tmp_path / "elsewhere")
    other = ledger.out / "deep" / "below" / "whatever.json"
    other.parent.mkdir(parents=True)
    other.write_text(json.dumps(record.as_json()))
    (ledger.out / "broken.json").write_text("{")
    (ledger.out / "list.json").write_text("[]")
    assert states(ledger, jobs) == ["to do", "done"]
    assert ledger.survey(jobs)[1].record == other


def test_an_unfinished_record_is_not_done(ledger, jobs, tmp_path):
    stored = run(jobs[0].config, tmp_path / "elsewhere").as_json() | {"status": "interrupted"}
    ledger.out.mkdir()
    (ledger.out / "sgd.json").write_text(json.dumps(stored))
    assert states(ledger, jobs) == ["to do", "to do"]


def test_a_directory_is_recognised_whatever_it_is_called_and_says_how_far_it_is(ledger, jobs):
    run(jobs[1].config, ledger.runs / "mine")
    standing = ledger.survey(jobs)[1]
    assert (standing.state, standing.directory, standing.tasks_done) == ("partial", ledger.runs / "mine", 2)


def test_a_name_that_another_run_has_is_not_used_again(ledger, jobs):
    first, second = jobs
    run(second.config, ledger.runs / first.place)
    standing = Ledger(ledger.out, ledger.runs).survey(jobs)[0]
    assert standing.directory == ledger.runs / "tiny" / f"sgd-til-seed0-{first.fingerprint[:8]}"
    ledger.out.joinpath("tiny").mkdir(parents=True)
    ledger.out.joinpath("tiny", "sgd-til-seed0.json").write_text("something else")
    assert Ledger(ledger.out, ledger.runs).survey(jobs)[0].record.stem == f"sgd-til-seed0-{first.fingerprint[:8]}"


def test_a_directory_in_use_is_worked_on_elsewhere(ledger, jobs):
    standing = ledger.survey(jobs)[0]
    with RunDirectory(standing.directory).locked():
        look(standing)
        assert standing.state == "elsewhere"
    look(standing)
    assert standing.state == "to do"


def test_a_failure_is_kept_with_its_reason(ledger, jobs):
    note_failure(ledger.survey(jobs)[0], "It broke.", "where")
    standing = Ledger(ledger.out, ledger.runs).survey(jobs)[0]
    assert (standing.state, standing.reason) == ("failed", "It broke.")
    assert standing.as_json()["reason"] == "It broke."
    assert json.loads(standing.failure.read_text())["details"] == "where"


def test_for_machines_a_run_that_is_done_brings_its_metrics(ledger, jobs, tmp_path):
    record = run(jobs[0].config, tmp_path / "elsewhere")
    ledger.out.mkdir()
    (ledger.out / "a.json").write_text(json.dumps(record.as_json()))
    done, to_do = (standing.as_json() for standing in ledger.survey(jobs))
    assert (done["state"], done["metrics"], done["tasks_done"]) == ("done", record.metrics, 2)
    assert (to_do["state"], to_do["metrics"], to_do["record"]) == ("to do", None, None)
    assert done["fingerprint"] == jobs[0].fingerprint

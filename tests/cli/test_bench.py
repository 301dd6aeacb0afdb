"""`snv bench` says how a study stands, works it off, and ends with a code that says whether all is done."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "study"))

from here import Here, written

from snv.cli.bench import seed_list
from snv.errors import UserError
from snv.study import LocalWorkers


@pytest.fixture
def bench(cli, tmp_path, monkeypatch):
    """The command on a study of two runs, done in this process."""
    monkeypatch.setattr(sys.modules[LocalWorkers.__module__].LocalWorkers, "__enter__", lambda _: Here())
    path = written(tmp_path)

    def call(*options: object):
        return cli("bench", path, "--out", tmp_path / "out", "--runs", tmp_path / "runs", *options)

    call.path = path
    return call


def test_a_plan_says_what_is_to_do_and_runs_nothing(bench, tmp_path):
    told = bench("--dry-run")
    assert told.code == 0
    assert "tiny/sgd-til" in told.out
    assert "2 to do; the rest takes about" in told.out
    assert "rough" in told.out
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "runs").exists()


def test_a_plan_for_machines_is_a_line_per_run_with_an_estimate(bench):
    rows = [json.loads(line) for line in bench("--dry-run", "--json", "--seeds", "3,4").out.splitlines()]
    assert [(row["name"], row["state"]) for row in rows] == [
        ("sgd-til-seed3", "to do"),
        ("ewc-til-seed3", "to do"),
        ("sgd-til-seed4", "to do"),
        ("ewc-til-seed4", "to do"),
    ]
    assert all(row["estimate"]["seconds"] > 0 and row["estimate"]["rough"] for row in rows)


def test_a_study_is_done_line_by_line_and_the_second_time_at_once(bench, tmp_path):
    told = bench()
    assert told.code == 0
    assert "tiny/sgd-til-seed0: ACC" in told.out
    assert told.out.rstrip().endswith("2 done")
    assert "| ewc-til |" in told.out
    assert (tmp_path / "out" / "tiny" / "ewc-til-seed0.json").exists()
    again = bench()
    assert "seed0: ACC" not in again.out
    assert "| ewc-til |" in again.out


def test_differences_are_paired_by_seed(bench):
    told = bench("--seeds", "0,1", "--against", "sgd-til")
    assert "| ewc-til | sgd-til |" in told.out
    assert "95 % interval" in told.out


def test_a_reference_that_is_no_run_is_refused_before_anything_runs(bench, tmp_path):
    told = bench("--against", "sgd-til0")
    assert told.code == 2
    assert "Did you mean 'sgd-til'" in told.err
    assert not (tmp_path / "runs").exists()


def test_a_group_without_the_reference_has_no_differences(bench):
    bench.path.write_text(
        bench.path.read_text() + "[groups.other]\nstreams = ['stream.toml']\nsettings.train.lr = 0.1\n"
    )
    told = bench("--seeds", "0,1", "--against", "ewc")
    assert told.code == 0
    assert told.out.count("95 % interval") == 1


def test_failures_are_told_and_end_with_another_code(bench):
    bench.path.write_text(bench.path.read_text() + "settings = { data.tasks = 9 }\n")
    told = bench()
    assert told.code == 1
    assert "2 failed" in told.out
    assert "failed: tiny/sgd-til-seed0: 9 tasks need" in told.out
    assert "Run again with --retry." in told.out
    rows = [json.loads(line) for line in bench("--json").out.splitlines()]
    assert [row["state"] for row in rows] == ["failed", "failed"]


def test_only_runs_of_a_name_are_done(bench, tmp_path):
    assert bench("--only", "sgd-*").code == 0
    assert [path.name for path in (tmp_path / "out").rglob("*.json")] == ["sgd-til-seed0.json"]
    assert "No run is called like" in bench("--only", "snv").err


def test_a_smoke_test_keeps_nothing(bench, tmp_path):
    told = bench("--smoke")
    assert told.code == 0
    assert told.out.rstrip().endswith("2 done")
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "runs").exists()


def test_a_smoke_test_that_is_stopped_has_nothing_to_continue(bench, monkeypatch):
    monkeypatch.setattr(Here, "news", lambda *_: signal.raise_signal(signal.SIGINT) or [])
    told = bench("--smoke")
    assert told.code == 128 + signal.SIGINT
    assert "nothing is kept" in told.err
    assert "continue" not in told.err


def test_a_tracker_whose_package_is_missing_is_refused_before_anything_runs(bench, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    told = bench("--track", "wandb")
    assert told.code == 2
    assert "pip install 'snv[wandb]'" in told.err
    assert not (tmp_path / "runs").exists()


def test_a_cluster_without_its_package_is_refused_before_anything_runs(bench, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    told = bench("--ray", "auto")
    assert told.code == 2
    assert "pip install 'snv[ray]'" in told.err
    assert not (tmp_path / "runs").exists()
    assert "Leave out --ray" in bench("--ray", "auto", "--smoke").err


def test_folders_may_be_urls_and_are_told_as_such(bench, tmp_path):
    out, runs = (tmp_path / "store" / "out").as_uri(), (tmp_path / "store" / "runs").as_uri()
    for _ in range(2):
        rows = [json.loads(line) for line in bench("--out", out, "--runs", runs, "--json").out.splitlines()]
        assert [row["record"] for row in rows] == [f"{out}/tiny/{kind}-til-seed0.json" for kind in ("sgd", "ewc")]
        assert rows[0]["directory"] == f"{runs}/tiny/sgd-til-seed0"
    assert (tmp_path / "store" / "out" / "tiny" / "sgd-til-seed0.json").exists()
    assert (tmp_path / "store" / "runs" / "tiny" / "sgd-til-seed0" / "config.json").exists()
    assert "nowhere" in bench("--out", "nowhere://bucket").err


def test_every_run_of_a_study_is_tracked(bench, tmp_path):
    pytest.importorskip("tensorboard", reason="needs the extra tensorboard")
    assert bench("--track", "tensorboard").code == 0
    files = list((tmp_path / "runs").glob("tiny/*/tensorboard/events*"))
    assert {file.parent.parent.name for file in files} == {"sgd-til-seed0", "ewc-til-seed0"}


def test_seeds_are_whole_numbers():
    assert seed_list("0,1,12") == [0, 1, 12]
    assert seed_list(None) == []
    with pytest.raises(UserError, match="whole numbers"):
        seed_list("0,x")

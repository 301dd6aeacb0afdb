"""Many short runs at once are the runs one after the other, and whatever goes wrong is named."""

from __future__ import annotations

import os
import sys

import pytest

from snv.cli import side_by_side
from snv.config import load_config
from snv.errors import UserError
from snv.study import LocalWorkers

TINY = ["data.tasks=2", "data.classes=4", "train.epochs=1", "network.name=mlp", "network.hidden=[8]", "threads=1"]


def job(out, *overrides):
    return load_config(None, [*TINY, *overrides]), out


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
    monkeypatch.setattr(sys.modules[LocalWorkers.__module__], "_work", die)
    with pytest.raises(UserError, match=r"The process that ran .*a ended with code 9"):
        side_by_side.run_all([job(tmp_path / "a")])


def die(_connection):
    os._exit(9)

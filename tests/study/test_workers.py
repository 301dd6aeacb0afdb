"""What becomes of a job is told in one word, and its record is kept."""

from __future__ import annotations

import json

import numpy as np
import pytest
from here import study_in

from snv.errors import Interrupted
from snv.runs import NeuronTable, RunDirectory
from snv.study import LocalWorkers, Work, Workers, carry_out, expand


@pytest.fixture
def work(tmp_path):
    config = expand(study_in(tmp_path)).jobs[0].config
    return Work("k", config, tmp_path / "run", tmp_path / "records" / "k.json")


def test_a_job_done_leaves_its_record(work):
    assert carry_out(work).kind == "done"
    assert json.loads(work.record.read_text())["status"] == "finished"


def test_a_directory_in_use_is_no_failure(work):
    with RunDirectory(work.directory).locked():
        assert carry_out(work).kind == "in use"


def test_an_error_of_any_kind_is_news_and_a_wish_to_stop_is_not(work, monkeypatch):
    monkeypatch.setattr("snv.study.workers.run", raising(ZeroDivisionError("by zero")))
    news = carry_out(work)
    assert (news.kind, news.text) == ("failed", "ZeroDivisionError: by zero")
    assert "ZeroDivisionError" in news.details
    monkeypatch.setattr("snv.study.workers.run", raising(Interrupted(15, "here")))
    with pytest.raises(Interrupted):
        carry_out(work)


def raising(error):
    def run(*_, **__):
        raise error

    return run


def test_progress_is_told_now_and_then(work, monkeypatch):
    told = []
    carry_out(work, told.append)
    assert len(told) >= 1
    assert all(news.kind == "told" and 0 <= news.share <= 1 for news in told)
    assert len(told) < 20


def test_the_table_of_neurons_goes_beside_the_record(work):
    work.directory.mkdir()
    carry_out(work)
    assert not work.record.with_suffix(".npz").exists()
    table = NeuronTable(("fc",), (2,), np.ones((1, 2), np.float32), np.eye(1, 2, dtype=bool))
    table.save(work.directory / "neurons.npz")
    assert carry_out(work).kind == "done"
    assert work.record.with_suffix(".npz").read_bytes() == (work.directory / "neurons.npz").read_bytes()


def test_local_processes_are_workers():
    assert isinstance(LocalWorkers(1), Workers)

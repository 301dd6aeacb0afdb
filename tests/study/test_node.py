"""A node does a run as anybody does, where the command was given, and says what it cannot see."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from here import study_in

from snv.errors import Interrupted
from snv.study import News, Work, expand
from snv.study.node import Origin, do, look_around, versions


class Told:
    """A queue of Ray's, as far as a node knows it."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str, float]] = []
        self.actor = SimpleNamespace(put_nowait=SimpleNamespace(remote=self.heard.append))


@pytest.fixture
def work(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")  # given back afterwards
    monkeypatch.chdir(tmp_path)
    return Work("k", expand(study_in(tmp_path)).jobs[0].config, tmp_path / "run")


def test_a_run_is_done_and_told_in_plain_values(work):
    told = Told()
    assert do(work, None, told, Origin.here(None), again=False).kind == "done"
    assert (work.directory / "config.json").exists()
    assert told.heard[0] == ("k", "begin", 0.0)
    assert torch.get_num_threads() == 1
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""


def test_what_has_a_copy_elsewhere_leaves_nothing_here(work, tmp_path):
    away = Work("k", work.config, tmp_path / "run", url=(tmp_path / "store").as_uri())
    assert do(away, None, Told(), Origin.here(None), again=False).kind == "done"
    assert not away.directory.exists()
    assert (tmp_path / "store" / "config.json").exists()


def test_a_folder_that_a_node_does_not_see_is_told_before_anything_is_done(work, tmp_path):
    origin = Origin.here(tmp_path / "nowhere" / "token")
    news = do(work, None, Told(), origin, again=False)
    assert news.kind == "failed"
    assert f"does not see {tmp_path / 'nowhere'}" in news.text
    assert not work.directory.exists()
    assert look_around(origin) == (False, versions())


def test_a_run_whose_node_asks_it_to_stop_goes_on_elsewhere(work, monkeypatch):
    def stopped(*_):
        raise Interrupted(15, "here")

    monkeypatch.setattr("snv.study.node.carry_out", stopped)
    news = do(work, None, Told(), Origin.here(None), again=False)
    assert (news.kind, "it was saved" in news.text) == ("lost", True)


def test_a_directory_that_a_lost_node_still_holds_is_waited_for(work, monkeypatch):
    kinds = iter(["in use", "in use", "done"])
    monkeypatch.setattr("snv.study.node.carry_out", lambda *_: News("k", next(kinds)))
    monkeypatch.setattr("time.sleep", lambda _: None)
    assert do(work, None, Told(), Origin.here(None), again=True).kind == "done"
    kinds = iter(["in use"])
    assert do(work, None, Told(), Origin.here(None), again=False).kind == "in use"


def test_paths_and_data_are_those_of_the_place_the_command_was_given_at(tmp_path, monkeypatch):
    monkeypatch.setenv("SNV_DATA", "/there")
    monkeypatch.chdir(tmp_path)
    origin = Origin.here(None)
    monkeypatch.setenv("SNV_DATA", "/own")
    monkeypatch.chdir("/")
    origin.taken()
    assert Path.cwd() == tmp_path
    assert os.environ["SNV_DATA"] == "/own"
    monkeypatch.delenv("SNV_DATA")
    origin.taken()
    assert os.environ["SNV_DATA"] == "/there"
    Origin("/no such folder", {}, None).taken()
    assert Path.cwd() == tmp_path

"""Who answers is said in one word, refused where it makes no sense, and gone afterwards."""

from __future__ import annotations

import multiprocessing
import sys

import pytest
import torch
from crews import SOON, Here, alone, assert_same, crew_here, network_game

from snv.errors import UserError
from snv.shapley.estimate import estimate
from snv.shapley.known_games import voting
from snv.shapley.workers import Workers, as_threaded_as, sharing, workers_of


def test_a_number_means_processes_of_this_machine_and_none_means_this_process():
    assert workers_of(3) == Workers(3, ray=None, threads=1)
    assert workers_of(Workers(2, "auto")) == Workers(2, "auto")
    assert workers_of(None) is workers_of(0) is None
    game = network_game()
    with sharing(game, None) as shared:
        assert shared is game


@pytest.mark.parametrize("arguments", [(0,), (-1,), (2, None, 0)])
def test_fewer_than_one_worker_or_thread_are_refused(arguments):
    with pytest.raises(UserError, match="1 or more"):
        Workers(*arguments)


def test_workers_have_ended_when_the_valuation_has():
    found = estimate(network_game(), "gradient", seed=5, workers=1, **SOON["gradient"])
    assert_same(found, alone(network_game)["gradient"])
    assert multiprocessing.active_children() == []


def test_workers_are_let_go_when_a_valuation_fails(monkeypatch):
    let_go = []
    monkeypatch.setattr(Here, "close", lambda self: let_go.append(self))
    monkeypatch.setattr(Workers, "crew", crew_here)
    with pytest.raises(ZeroDivisionError):
        estimate(network_game(), "gradient", progress=lambda *_: 1 / 0, workers=2)
    assert len(let_go) == 1


def test_a_game_without_slopes_is_refused_before_a_worker_begins(monkeypatch):
    monkeypatch.setattr(Workers, "crew", None)
    with pytest.raises(UserError, match=r"this game \(WeightGame\) has no gradient"):
        estimate(voting(), "gradient", workers=2)


def test_what_this_process_computes_for_them_has_as_many_threads_as_they():
    before = torch.get_num_threads()
    with as_threaded_as(Workers(4, threads=2)):
        assert torch.get_num_threads() == 2
    with as_threaded_as(None):
        assert torch.get_num_threads() == before
    assert torch.get_num_threads() == before


def test_without_ray_the_answer_is_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"pip install 'snv\[ray\]'"):
        estimate(network_game(), "gradient", workers=Workers(1, ray="local"))

"""Actors of a Ray cluster give the bits of this process, and may die."""

from __future__ import annotations

import os
import signal

import pytest
from crews import SOON, alone, assert_same, network_game

from snv.errors import UserError
from snv.shapley.estimate import ESTIMATORS
from snv.shapley.questions import WorkerError
from snv.shapley.shared import SharedGame

ray = pytest.importorskip("ray")

from snv.shapley.on_ray import Holder, RayCrew  # noqa: E402


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Two cores on the loopback interface."""
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        _node_ip_address="127.0.0.1",
        object_store_memory=10**8,
    )
    yield
    ray.shutdown()


def estimated(crew, method, progress=None):
    function, own = ESTIMATORS[method].function, ESTIMATORS[method].settings
    return function(SharedGame(network_game(), crew), own(**SOON[method]), seed=5, progress=progress)


def test_every_estimator_finds_the_same_bits_with_two_actors_and_with_the_one_that_is_left(cluster, monkeypatch):
    monkeypatch.setattr(Holder, "pid", lambda self: os.getpid(), raising=False)
    found, crew = alone(network_game), RayCrew(network_game(), 2, "auto")
    try:
        for method in ESTIMATORS:
            assert_same(estimated(crew, method), found[method])
        pids = ray.get([actor.pid.remote() for actor in crew._actors.values()])
        left = pids[:1]
        killed = estimated(crew, "gradient", lambda *_: [os.kill(left.pop(), signal.SIGKILL) for _ in list(left)])
        assert_same(killed, found["gradient"])
        assert len(crew._actors) == 1
        for method in ESTIMATORS:
            assert_same(estimated(crew, method), found[method])
        os.kill(pids[1], signal.SIGKILL)
        with pytest.raises(WorkerError, match="No worker is left: the last one told"):
            estimated(crew, "montecarlo")
    finally:
        crew.close()
    assert ray.is_initialized(), "whoever joined the cluster leaves it"


def test_more_actors_than_cores_are_refused_because_they_would_wait_for_ever(cluster):
    with pytest.raises(UserError, match="has 2 cores, and 6 are asked for"):
        RayCrew(network_game(), 3, "auto", threads=2)

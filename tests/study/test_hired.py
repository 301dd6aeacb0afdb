"""Runs are done by whom the command asks for, with as much of the machine as their configs ask for."""

from __future__ import annotations

import dataclasses
import sys

import pytest
from here import study_in

from snv.errors import UserError
from snv.machine.devices import Resources
from snv.study import LocalWorkers, MirroredWorkers, cores, expand, hired, seats


@pytest.fixture
def config(tmp_path):
    return expand(study_in(tmp_path)).jobs[0].config


def test_local_processes_are_as_many_as_asked_for_or_as_keep_the_cores_busy(tmp_path, config):
    with hired(None, 3, "runs", tmp_path, [config]) as workers:
        assert isinstance(workers, LocalWorkers)
        assert workers.room() == 3
    wide = dataclasses.replace(config, resources=Resources(cpus=cores() + 1))
    with hired(None, None, "runs", tmp_path, [config, wide]) as workers:
        assert workers.room() == 1
    assert seats([]) == seats([Resources()]) == cores()


def test_what_is_at_a_url_has_copies_there(tmp_path, config):
    with hired(None, 1, "memory://runs", tmp_path, [config]) as workers:
        assert isinstance(workers, MirroredWorkers)


def test_a_cluster_needs_a_package_and_says_so(tmp_path, config, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"pip install 'snv\[ray\]'"), hired("auto", None, "runs", tmp_path, [config]):
        pass

"""A cluster that is not there is told in a sentence, and of one that was started nothing is left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from here import written

pytest.importorskip("ray", reason="needs the extra ray")

from nodes import processes, short_folder
from test_local import until

from snv.errors import UserError
from snv.study.cluster import Cluster


def test_a_cluster_that_is_not_there_is_told_in_a_sentence(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with short_folder() as folder, pytest.raises(UserError, match=r"There is no Ray cluster at 'auto'.*take `local`"):
        monkeypatch.setenv("RAY_TMPDIR", folder)
        Cluster("auto").__enter__()


def test_a_cluster_of_this_machine_ends_with_the_command_and_with_its_death(tmp_path):
    study = written(tmp_path)
    command = [sys.executable, "-m", "snv.cli.main", "bench", str(study), "--ray", "local", "--only", "sgd-*", "--json"]
    command += ["--out", str(tmp_path / "out"), "--runs", str(tmp_path / "runs")]
    with short_folder() as folder:
        environment = os.environ | {"RAY_TMPDIR": folder, "HOME": folder}
        with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as killed:
            until(lambda: any("raylet" in process for process in processes(folder)))
            killed.kill()
        until(lambda: not processes(folder))
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
        assert ran.returncode == 0, ran.stderr
        assert [json.loads(line)["state"] for line in ran.stdout.splitlines()] == ["done"]
        assert processes(folder) == []
        assert not Path(folder, ".ray").exists()  # Ray's keys to clusters that the user starts

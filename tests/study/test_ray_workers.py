"""A sweep on a real cluster of two nodes survives the loss of one, and what is stopped goes on elsewhere."""

from __future__ import annotations

import dataclasses
import signal
from pathlib import Path

import pytest
from here import study_in

pytest.importorskip("ray", reason="needs the extra ray")

from nodes import is_on, processes, two_nodes
from searched import small

from snv.errors import Interrupted, UserError
from snv.files import read_json
from snv.machine.devices import Resources
from snv.runs import is_url
from snv.study import (
    MirroredWorkers,
    Outcome,
    RayWorkers,
    Trial,
    Work,
    Workers,
    at_hand,
    bench,
    carry_out,
    expand,
    failures,
    how_they_stand,
    tune,
)

SLOW = f"{Path(__file__).with_name('slow.py')}:Slow"
SWEEP = f"""
[settings]
train.patience = 0
checkpoint_seconds = 0

[groups.slow]
streams = ["stream.toml"]
methods = ["{SLOW}"]
settings.train.epochs = 20
grid.train.lr = [0.001, 0.01]

[groups.quick]
streams = ["stream.toml"]
seeds = [1, 2, 3, 4, 5, 6]
"""
ONE = SWEEP.partition("[groups.quick]")[0].replace("[0.001, 0.01]", "[0.01]")


@pytest.fixture(scope="module")
def cluster():
    with two_nodes() as (made, second):
        folder = made.head_node.get_temp_dir_path()
        assert processes(folder)
        yield made, second
    assert processes(folder) == []


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The same sweep, run by run in this process."""
    folder = tmp_path_factory.mktemp("alone")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("time.sleep", lambda _: None)  # nobody stops these
        bench(study_in(folder, SWEEP, SLOW), folder / "out", runs=folder / "runs", workers=Hasty())
    return folder


class Hasty:
    """Runs everything at once when it is asked for news."""

    def __init__(self) -> None:
        self.jobs: list[Work] = []

    def room(self) -> int:
        return 1

    submit = property(lambda self: self.jobs.append)

    def news(self, seconds: float):
        return [carry_out(self.jobs.pop()) for _ in list(self.jobs)]

    def stop(self) -> None: ...


def records(folder: Path) -> dict[str, dict]:
    """All that a repetition must have, too."""
    found = {path.name: read_json(path) for path in folder.rglob("*.json")}
    return {name: {key: record[key] for key in record if key != "cost"} for name, record in found.items()}


def checkpoints(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("task-*.safetensors")}


def test_what_the_cluster_cannot_do_is_refused_before_anything_is_done(cluster, tmp_path, monkeypatch):
    address = cluster[0].address
    with pytest.raises(UserError, match=r"A run takes 64 CPUs, and no node .* has that much: .* has 1 CPUs, 1 GPUs"):
        RayWorkers(address, [Resources(), Resources(cpus=64)], tmp_path / "runs").__enter__()
    assert list((tmp_path / "runs").iterdir()) == []
    shared = Resources(cpus=0.25, gpus=0.25)
    with RayWorkers(address, [shared], tmp_path / "runs") as workers:
        assert isinstance(workers, Workers)
        assert workers.room() == 4  # on one GPU, of the one node that has one
        assert len(list((tmp_path / "runs").iterdir())) == 1
    monkeypatch.setattr(Path, "touch", lambda *_, **__: None)  # so that no node sees what was to be written
    with pytest.raises(UserError, match=rf"Node .* does not see {tmp_path / 'other'}"):
        RayWorkers(address, [shared], tmp_path / "other").__enter__()


def test_a_sweep_that_loses_a_node_is_done_on_the_other_with_the_same_records(cluster, alone, tmp_path):
    made, second = cluster
    gone: list[object] = []

    def lose_a_node(board) -> None:
        if not gone and any(standing.doing.startswith("task 1") and is_on(second, standing) for standing in board):
            gone.append(made.remove_node(second, allow_graceful=False))

    with RayWorkers(made.address, shared=tmp_path / "runs") as workers:
        assert workers.room() == 2
        study = study_in(tmp_path, SWEEP, SLOW)
        done = bench(study, tmp_path / "out", runs=tmp_path / "runs", workers=workers, watch=lose_a_node)
        assert workers.room() == 1
    assert gone
    assert [standing.state for standing in done] == ["done"] * 8
    assert sum(standing.lost for standing in done) == 1
    assert len(records(tmp_path / "out")) == 8
    assert records(tmp_path / "out") == records(alone / "out")
    assert checkpoints(tmp_path / "runs") == checkpoints(alone / "runs")


def test_a_run_that_is_stopped_goes_on_from_its_copy_elsewhere_to_the_same_bits(cluster, alone, tmp_path):
    store, told = tmp_path / "store", []

    def stop(board) -> None:
        told.extend(standing.doing for standing in board if standing.doing)
        if any(doing.startswith("task 1") for doing in told):
            signal.raise_signal(signal.SIGTERM)

    def done(watch):
        with (
            at_hand(store.as_uri(), how_they_stand, failures) as here,
            RayWorkers(cluster[0].address, jobs=1) as workers,
        ):
            working = MirroredWorkers(workers, here, store.as_uri())
            return bench(study_in(tmp_path, ONE, SLOW), tmp_path / "out", runs=here, workers=working, watch=watch)

    with pytest.raises(Interrupted) as stopped:
        done(stop)
    assert is_url(str(stopped.value))
    assert list(store.rglob("now.safetensors"))
    assert not list((tmp_path / "out").rglob("*.json"))
    assert [(standing.state, standing.lost) for standing in done(lambda _: None)] == [("done", 0)]
    assert len(checkpoints(store)) == 2
    wanted = {name: bits for name, bits in checkpoints(alone / "runs").items() if "lr-0.01" in name}
    assert list(checkpoints(store).values()) == list(wanted.values())
    assert len(expand(study_in(tmp_path, ONE, SLOW)).jobs) == 1


def test_trials_on_a_cluster_come_to_the_same_choice(cluster, tmp_path):
    config, rates = small("method=sgd", "train.epochs=2"), {"train.lr": [0.0001, 0.01]}
    with RayWorkers(cluster[0].address, shared=tmp_path / "there") as workers:
        there = tune(config, tmp_path / "there", space=rates, workers=workers)
    here = tune(config, tmp_path / "here", space=rates)
    assert [(trial.settings, outcomes(trial)) for trial in there.trials] == [
        (trial.settings, outcomes(trial)) for trial in here.trials
    ]
    assert not (tmp_path / "there" / "runs").exists()


def outcomes(trial: Trial) -> dict[int, Outcome]:
    """All that does not depend on the machine."""
    return {seed: dataclasses.replace(outcome, seconds=0.0) for seed, outcome in trial.outcomes.items()}

"""Two configs have one fingerprint exactly if they ask for one result, whichever version wrote them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from snv.config import RunConfig, build, load_config
from snv.learners import LEARNERS
from snv.study import expand, fingerprint, load_study
from snv.study.fingerprint import fingerprint_of, restored

ROOT = Path(__file__).parents[2]


def config(*overrides: str):
    return load_config(None, overrides)


@pytest.mark.parametrize(
    "free", ["keep=last", "checkpoint_seconds=1", "data.dir=/there", "data.workers=3", "device=cpu", "threads=3"]
)
def test_what_changes_no_result_changes_no_fingerprint(free):
    assert fingerprint(config(free)) == fingerprint(config())


@pytest.mark.parametrize(
    "other", ["seed=1", "scenario=cil", "method=ewc", "train.lr=0.02", "data.tasks=2", "network.width=8"]
)
def test_what_changes_the_result_changes_the_fingerprint(other):
    assert fingerprint(config(other)) != fingerprint(config())


def test_a_default_that_is_spelt_out_is_the_same_run():
    said = config("method=ewc", "learner.strength=10", "train.patience=15", "train.smoothing=0")
    assert fingerprint(said) == fingerprint(config("method=ewc"))


def test_a_config_stored_as_json_has_the_fingerprint_it_had():
    asked = config("method=snv", "data.tasks=[3, 7]", "network.name=mlp", "network.hidden=[4, 4]")
    stored = json.loads(json.dumps(asked.as_dict()))
    assert fingerprint_of(stored, Path("there")) == fingerprint(asked)


def test_a_record_older_than_a_setting_is_what_was_done_then():
    older = {"method": "snv", "learner": {"capacity": 0.2, "coverage": 0.9, "norm": "per-task"}}
    found = restored(older, Path("older"))
    assert found is not None
    learner = {"capacity": 0.2, **LEARNERS["snv"].card.added}
    assert dict(found.learner) == learner
    then = build(RunConfig, {"method": "snv", "learner": learner})
    assert fingerprint_of(older, Path("older")) == fingerprint(then) != fingerprint(config("method=snv"))


@pytest.mark.parametrize("gone", [{"method": "snv", "learner": {"norm": "shared"}}, {"method": "gone"}, {}])
def test_what_no_run_of_today_is_has_none(gone):
    assert fingerprint_of(gone, Path("older")) is None


def test_a_record_of_somebodys_own_method_is_known_without_executing_the_file(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    asked = config(f"method={tmp_path / 'own.py'}:Mine", "learner.strength=2")
    stored = json.loads(json.dumps(asked.as_dict()))
    before = fingerprint(asked)
    assert before != fingerprint(config(f"method={tmp_path / 'own.py'}:Mine"))
    (tmp_path / "own.py").write_text("raise SystemExit('executed')")
    assert fingerprint_of(stored, Path("there")) == before
    assert restored(stored, Path("there")) is None


OWN = """
from dataclasses import dataclass
from snv import Learner
from snv.learners import Card

@dataclass(frozen=True)
class Config:
    strength: float = 1.0

class Mine(Learner):
    card = Card(title="mine", paper="none")
    Config = Config
"""


@pytest.mark.parametrize("folder", ["small-cifar", "bakeoff"])
def test_a_record_here_that_is_called_like_a_run_of_its_study_is_that_run(folder):
    study = load_study(ROOT / "configs" / f"{folder.split('-')[0]}.toml")
    jobs = {job.place: job for job in expand(study).jobs}
    records = [path for path in (ROOT / "results" / folder).glob("*.json") if f"{folder}/{path.stem}" in jobs]
    assert len(records) >= 20
    for path in records:
        stored = json.loads(path.read_text(encoding="utf-8"))["config"]
        assert fingerprint_of(stored, path) == jobs[f"{folder}/{path.stem}"].fingerprint, path

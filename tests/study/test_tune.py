"""A search finds settings no worse than those before, looks only where it may, and goes on after a kill."""

from __future__ import annotations

import gc
import importlib
import json
import signal
import subprocess
import sys
import time
import tomllib
import weakref
from pathlib import Path

import pytest
from searched import small

from snv.config import load_config
from snv.errors import UserError
from snv.study import tune, workers
from snv.study.tuning import Tuning

runs = importlib.import_module("snv.runs.prepare")

RATES = {"train.lr": [0.0001, 0.01]}


def without_seconds(tuning: Tuning) -> dict:
    """All of a ledger that does not depend on the machine."""
    ledger = json.loads(json.dumps(tuning.as_json()))
    del ledger["spent"]["seconds"]
    for found in ledger["trials"]:
        for outcome in found["seeds"].values():
            del outcome["seconds"]
    return ledger


def test_the_choice_is_no_worse_than_the_settings_before_and_is_what_a_run_accepts(config, tmp_path):
    tuning = tune(config, tmp_path, space=RATES)
    assert tuning.best.score >= tuning.trials[0].score
    assert tuning.best.score == max(trial.score for trial in tuning.trials if trial.score is not None)
    chosen = load_config(None, ["method=ewc"], str(tmp_path / "chosen.toml"))
    assert chosen.train.lr == tuning.chosen["train.lr"] == tuning.tuned.train.lr
    ledger = json.loads((tmp_path / "ledger.json").read_text())
    assert ledger == json.loads(json.dumps(tuning.as_json()))
    assert ledger["images"]["tasks"] == 1
    assert (tmp_path / "ledger.md").read_text().count("**chosen**") == 1
    assert not (tmp_path / "runs").exists()


def test_halves_leave_the_other_half_to_report_on(config, tmp_path):
    tuning = tune(config, tmp_path, protocol="halves", space={"learner.strength": [1, 1000]})
    assert tuning.images["tasks"] == 2
    assert tuning.tuned.data.half == "second"
    own = tomllib.loads((tmp_path / "chosen.toml").read_text())["ewc"]["til"]
    assert own["data"] == {"half": "second"}
    stream = runs.stream_of(tuning.tuned)
    assert {name for t in range(2) for name in stream.names(t)} == {
        name for t in (2, 3) for name in runs.stream_of(config).names(t)
    }


def test_while_trials_run_the_source_is_gone_and_is_not_read_again(config, tmp_path, monkeypatch):
    sources, alive = [], []
    load, run = runs.load_source, workers.run

    def load_once(*arguments, **options):
        source = load(*arguments, **options)
        sources.append(weakref.ref(source))
        return source

    def watched(config, *arguments, **options):
        gc.collect()
        alive.append(sources[0]() is not None)
        with pytest.raises(UserError, match="no dataset called"):  # nor does it know where they are
            load(config.data.name, data_dir=config.data.dir)
        return run(config, *arguments, **options)

    monkeypatch.setattr(runs, "load_source", load_once)
    monkeypatch.setattr(workers, "run", watched)
    tune(config, tmp_path, space={"train.lr": [0.01]})
    assert len(sources) == 1
    assert alive
    assert not any(alive)


class Killed(BaseException):
    pass


def test_a_search_that_was_killed_goes_on_repeats_nothing_and_comes_to_the_same(config, tmp_path, monkeypatch):
    options = {"space": {"train.lr": [0.01]}, "seeds": [3, 4]}
    whole = tune(config, tmp_path / "whole", **options)
    calls, run = [], workers.run

    def mortal(config, out, *rest, **more):
        calls.append(out.name)
        if len(calls) in (3, 6):
            raise Killed
        return run(config, out, *rest, **more)

    monkeypatch.setattr(workers, "run", mortal)
    for _ in range(2):
        with pytest.raises(Killed):
            tune(config, tmp_path / "parts", **options)
    parts = tune(config, tmp_path / "parts", **options)
    assert without_seconds(parts) == without_seconds(whole)
    n_calls = len(calls) - 2
    monkeypatch.setattr(workers, "run", None)
    assert without_seconds(tune(config, tmp_path / "parts", **options)) == without_seconds(whole)
    assert n_calls == 2 * sum(1 + (found.epochs > 2) + (found.epochs > 4) for found in whole.trials)


def test_a_directory_holds_one_search(config, tmp_path):
    tune(config, tmp_path / "a", space={"train.lr": [0.01]}, trials=1)
    with pytest.raises(UserError, match="protocol was 'first-task' and is now 'halves'"):
        tune(config, tmp_path / "a", protocol="halves", space={"train.lr": [0.01]}, trials=1)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "letter.txt").write_text("dear")
    with pytest.raises(UserError, match=r"holds no search of settings \(found letter.txt\)"):
        tune(config, tmp_path / "b")


def test_if_no_trial_came_to_its_end_its_reason_is_told(tmp_path):
    config = small("method=sgd", "train.optimizer=sgd", "train.lr=1e30")
    with pytest.raises(UserError, match=r"No trial came to its end.*diverged"):
        tune(config, tmp_path, space={"train.lr": [1e31]})


@pytest.mark.slow
def test_a_search_killed_by_the_system_goes_on_and_comes_to_the_same(config, tmp_path):
    space = {"train.lr": [0.01, 0.1]}
    whole = tune(config, tmp_path / "whole", space=space)
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from searched import small
from snv.study import tune
tune(small("method=ewc", "checkpoint_seconds=0"), Path({str(tmp_path / "parts")!r}), space={space!r})
"""
    for moment in (1, 3):  # so many runs are begun or done
        process = subprocess.Popen([sys.executable, "-c", code])
        while process.poll() is None and len(list((tmp_path / "parts").glob("*/*-seed*"))) < 2 * moment:
            time.sleep(0.005)
        process.kill()
        assert process.wait() == -signal.SIGKILL
    parts = tune(small("method=ewc", "checkpoint_seconds=0"), tmp_path / "parts", space=space)
    del (first := without_seconds(parts))["config"], (second := without_seconds(whole))["config"]
    assert first == second


@pytest.mark.slow
def test_processes_side_by_side_come_to_the_same(config, tmp_path):
    options = {"space": {"train.lr": [0.0001, 0.01, 0.1]}, "seeds": [3, 4]}
    alone, together = tune(config, tmp_path / "a", **options), tune(config, tmp_path / "b", jobs=2, **options)
    assert without_seconds(alone) == without_seconds(together)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["snv", "wsn", "ewc"])
def test_on_task_1_alone_each_method_finds_settings_no_worse_than_its_defaults(method, tmp_path: Path):
    config = load_config(None, [f"method={method}", "train.epochs=10", "network.width=16", "threads=1"])
    tuning = tune(config, tmp_path)
    assert tuning.images["tasks"] == 1
    assert tuning.trials[0].settings["train.lr"] == 0.001
    assert tuning.best.score >= tuning.trials[0].score > 60

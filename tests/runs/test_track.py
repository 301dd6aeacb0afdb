"""A tracker hears of a run's config once, of every epoch and task, and of the end; what is missing is named."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from snv.config import load_config
from snv.errors import Interrupted, UserError
from snv.runs import TRACKERS, Tracker, trackers
from snv.runs.run import run
from snv.runs.track import Listeners, Several, numbers_in

TINY = [
    "data.tasks=2",
    "data.classes=4",
    "data.per_class=20",
    "train.epochs=2",
    "network.name=mlp",
    "network.hidden=[8]",
]


class Notebook:
    """Writes down what it hears."""

    def __init__(self) -> None:
        self.pages: list[tuple[str, object, int | None]] = []

    def begin(self, config, step):
        self.pages.append(("begin", config["method"], step))

    def numbers(self, values, step):
        self.pages.append(("numbers", dict(values), step))

    def end(self, metrics):
        self.pages.append(("end", dict(metrics), None))

    def close(self):
        self.pages.append(("close", None, None))


def config(*overrides: str):
    return load_config(None, [*TINY, *overrides])


def test_a_run_tells_its_config_every_epoch_every_task_and_the_end(tmp_path):
    notebook = Notebook()
    assert isinstance(notebook, Tracker)
    record = run(config(), tmp_path / "run", tracker=notebook)
    kinds = [(kind, step) for kind, _, step in notebook.pages]
    steps = [("numbers", step) for step in range(1, 7)]  # two tasks of two epochs, and each task
    assert kinds == [("begin", 0), *steps, ("end", None), ("close", None)]
    log = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert [page["train_loss"] for _, page, step in notebook.pages if step in (1, 2, 4, 5)] == [
        entry["train_loss"] for entry in log
    ]
    assert notebook.pages[6][1]["accuracy/task 1"] == record.accuracy[1, 0]
    assert notebook.pages[-2][1] == numbers_in(record.metrics)


def test_a_tracked_run_is_the_same_run(tmp_path):
    run(config(), tmp_path / "alone")
    run(config(), tmp_path / "told", tracker=Notebook())
    for name in ("record.json", "log.jsonl", "checkpoints/task-002.safetensors"):
        assert (tmp_path / "alone" / name).read_bytes() == (tmp_path / "told" / name).read_bytes()


def test_a_run_that_goes_on_says_from_where_and_one_that_is_stopped_is_closed(tmp_path):
    class Stopping(Notebook):
        def numbers(self, values, step):
            super().numbers(values, step)
            if step == 3:
                raise Interrupted(15, "here")

    first, second = Stopping(), Notebook()
    with pytest.raises(Interrupted):
        run(config(), tmp_path / "run", tracker=first)
    assert [kind for kind, *_ in first.pages[-2:]] == ["numbers", "close"]
    run(config(), tmp_path / "run", tracker=second)
    assert second.pages[0] == ("begin", "sgd", 3)
    assert second.pages[1][2] == 4


def test_several_trackers_hear_the_same(tmp_path):
    one, other = Notebook(), Notebook()
    run(config(), tmp_path / "run", tracker=Several([one, other]))
    assert one.pages == other.pages != []


def test_what_is_unknown_is_not_told_as_a_number():
    assert numbers_in({"a": 1, "b": None, "c": "text", "d": math.nan, "e": 2.5}) == {"a": 1.0, "e": 2.5}


def test_an_unknown_tracker_is_answered_with_the_nearest_one(tmp_path):
    with pytest.raises(UserError, match="Did you mean 'tensorboard'"):
        trackers(["tensorbord"], tmp_path)


@pytest.mark.parametrize(
    ("name", "module"), [("tensorboard", "torch.utils.tensorboard"), ("mlflow", "mlflow"), ("wandb", "wandb")]
)
def test_a_package_that_is_missing_is_named_before_anything_runs(name, module, tmp_path, monkeypatch, cli):
    monkeypatch.setitem(sys.modules, module, None)
    told = cli("run", *TINY, "--out", tmp_path / "run", "--track", name)
    assert told.code == 2
    assert f"needs the package {name}" in told.err
    assert f"pip install 'snv[{name}]'" in told.err
    assert not (tmp_path / "run").exists()


def test_tensorboard_gets_a_real_event_file(tmp_path):
    pytest.importorskip("tensorboard", reason="needs the extra tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    record = run(config(), tmp_path / "run", tracker=trackers(["tensorboard"], tmp_path / "run"))
    found = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    assert [event.step for event in found.Scalars("train_loss")] == [1, 2, 4, 5]
    assert [event.step for event in found.Scalars("ACC")] == [3, 6]
    assert found.Scalars("final/ACC")[0].value == pytest.approx(record.metrics["ACC"])
    text = found.Tensors("config/text_summary")[0].tensor_proto.string_val[0].decode()
    assert '"method": "sgd"' in text


def module(name: str, **contents: object) -> ModuleType:
    """A package that is not here."""
    made = ModuleType(name)
    vars(made).update(contents)
    return made


class FakeClient:
    """As much of MLflow's client as is used, with one store per address."""

    stores: dict[str, dict[str, SimpleNamespace]] = {}  # noqa: RUF012

    def __init__(self, uri: str) -> None:
        self.uri, self.runs = uri, self.stores.setdefault(uri, {})

    def get_experiment_by_name(self, name):
        return SimpleNamespace(experiment_id="1") if self.runs else None

    def create_experiment(self, name, artifact_location):
        assert artifact_location.startswith("file:")
        return "1"

    def create_run(self, experiment, tags, run_name):
        found = SimpleNamespace(info=SimpleNamespace(run_id="r1"), tags=tags, name=run_name, params={}, metrics=[])
        self.runs["r1"] = found
        return found

    def search_runs(self, experiments, text):
        return [found for found in self.runs.values() if text == f"tags.snv_run = '{found.tags['snv_run']}'"]

    def log_param(self, run_id, name, value):
        self.runs[run_id].params[name] = value

    def log_metric(self, run_id, name, value, step):
        self.runs[run_id].metrics.append((name, value, step))

    def set_terminated(self, run_id, status):
        self.runs[run_id].status = status


def test_mlflow_gets_one_run_in_a_local_database_also_if_it_goes_on(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", module("mlflow", MlflowClient=FakeClient))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    out = tmp_path / "run"
    run(config(), out, stop_after=1, tracker=trackers(["mlflow"], out))
    found = FakeClient.stores[f"sqlite:///{out.resolve() / 'mlflow' / 'mlflow.db'}"]
    assert found["r1"].status == "KILLED"
    run(config(), out, tracker=trackers(["mlflow"], out))
    assert (list(found), found["r1"].name, found["r1"].status) == (["r1"], "run", "FINISHED")
    assert found["r1"].params["data.tasks"] == 2
    assert [step for name, _, step in found["r1"].metrics if name == "ACC"] == [3, 6]


def test_an_address_of_ones_own_takes_the_place_of_the_local_database(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", module("mlflow", MlflowClient=FakeClient))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://here")
    run(config(), tmp_path / "run", tracker=trackers(["mlflow"], tmp_path / "run"))
    assert "http://here" in FakeClient.stores


def test_wandb_stays_on_this_machine_unless_told_otherwise(tmp_path, monkeypatch):
    begun: list[dict] = []
    logged: list[int] = []
    ended = SimpleNamespace(summary={}, finished=False)

    def init(**settings):
        begun.append(settings)
        return SimpleNamespace(
            log=lambda values, step: logged.append(step),
            summary=ended.summary,
            finish=lambda: setattr(ended, "finished", True),
        )

    monkeypatch.setitem(sys.modules, "wandb", module("wandb", init=init))
    monkeypatch.delenv("WANDB_MODE", raising=False)
    record = run(config(), tmp_path / "run", tracker=trackers(["wandb"], tmp_path / "run"))
    assert begun[0]["mode"] == "offline"
    assert begun[0]["dir"] == str(tmp_path / "run")
    assert begun[0]["config"]["train.epochs"] == 2
    assert logged == sorted(logged) == [1, 2, 3, 4, 5, 6]
    assert ended.summary["final/ACC"] == record.metrics["ACC"]
    assert ended.finished
    monkeypatch.setenv("WANDB_MODE", "online")
    run(config(), tmp_path / "other", tracker=trackers(["wandb"], tmp_path / "other"))
    assert [settings["mode"] for settings in begun] == ["offline", "online"]
    assert begun[0]["id"] != begun[1]["id"]


def test_every_tracker_has_a_name():
    assert set(TRACKERS) == {"tensorboard", "mlflow", "wandb"}
    assert isinstance(trackers([], Path()), Tracker)


def test_who_names_nobody_is_heard_by_nobody():
    listeners = Listeners()
    assert listeners.progress("task 1", 1, 2) is None and listeners.saved() is None
    listeners.tracker.numbers({"loss": 1.0}, 1)

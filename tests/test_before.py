"""Directories written by the version before this one open, prove what they promised and go on.

`before/` holds two runs of SNV on digits that were interrupted within their second of three tasks, a model that has
learned two tasks of three digits each, and its answers to 24 pictures it had not seen; and two runs with a common space
that were interrupted when their first task was learned.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import snv
from snv.errors import UserError
from snv.model.store import Store

BEFORE = Path(__file__).with_name("before")
DIGITS = Path(snv.__file__).parent / "data" / "digits.npz"


@pytest.fixture
def model(tmp_path):
    shutil.copytree(BEFORE / "digits.snv", tmp_path / "digits.snv")
    return snv.Model.open(tmp_path / "digits.snv")


def pictures(digits, start, stop):
    """Pictures number ``start`` to ``stop`` of each digit, and their labels."""
    with np.load(DIGITS) as found:
        images, labels = found["images"], found["labels"]
    rows = np.concatenate([np.flatnonzero(labels == digit)[start:stop] for digit in digits])
    return torch.as_tensor(images[rows])[:, None], torch.as_tensor(labels[rows])


def test_a_model_of_the_version_before_gives_the_same_answers(model):
    pixels, _ = pictures((0, 1, 2, 7, 8, 9), 60, 64)
    answers = np.load(BEFORE / "answers.npz")
    np.testing.assert_allclose(model.probabilities(pixels, "low"), answers["known"], atol=1e-5)
    np.testing.assert_allclose(model.probabilities(pixels), answers["open"], atol=1e-5)


def test_a_model_of_the_version_before_verifies_learns_on_and_forgets(model):
    assert all(verdict.unchanged for verdict in model.verify())
    model.learn(pictures((4, 5), 0, 40), "middle", epochs=2)
    again = snv.Model.open(model.path)
    assert [task.name for task in again.tasks] == ["low", "high", "middle"]
    assert all(verdict.unchanged for verdict in again.verify())
    again.forget("low")
    assert all(verdict.unchanged for verdict in snv.Model.open(model.path).verify())


def test_the_version_before_refuses_a_model_saved_now_and_says_what_it_needs(model, monkeypatch):
    model.learn(pictures((4, 5), 0, 40), "middle", epochs=2)
    assert not any("means" in state.get("subnetwork", ()) for state in Store(model.path).read().states.values())
    monkeypatch.setattr("snv.model.manifest.FORMAT", 2)
    with pytest.raises(
        UserError, match=r"is of format 4, and snv .* up to 2\. It needs snv .* pip install --upgrade snv"
    ):
        snv.Model.open(model.path)


def test_zeros_that_stood_for_silent_neurons_are_read_over_and_not_saved_again(model, monkeypatch):
    before, store = model.probabilities(pictures((0, 8), 60, 64)[0]), Store(model.path)
    stored = store.read()
    assert any("means" in state.get("subnetwork", ()) for state in stored.states.values())
    with monkeypatch.context() as patch, store.writing():
        patch.setattr("snv.model.manifest.FORMAT", 2)
        store.write(stored.content, stored.states)
    again = snv.Model.open(model.path)
    assert torch.equal(again.probabilities(pictures((0, 8), 60, 64)[0]), before)
    assert all(verdict.unchanged for verdict in again.verify())
    again.save()
    assert '"format": 4,' in (model.path / "model.json").read_text()
    assert not any("means" in state.get("subnetwork", ()) for state in store.read().states.values())


def test_a_model_whose_silent_neurons_were_not_silent_is_refused_with_advice(model):
    store = Store(model.path)
    stored = store.read()
    (low,) = [state for name, state in stored.states.items() if name.endswith("low")]
    low["subnetwork"]["means"] = torch.full_like(low["subnetwork"]["means"], 0.5)
    with store.writing():
        store.write(stored.content, stored.states)
    with pytest.raises(UserError, match=r"held at their mean responses, .* Learn it anew"):
        snv.Model.open(model.path).verify()


@pytest.mark.parametrize("scenario", ["til", "cil"])
@pytest.mark.parametrize("run", ["run", "run-common"])
def test_a_run_of_the_version_before_goes_on_to_its_end(tmp_path, run, scenario):
    shutil.copytree(BEFORE / f"{run}-{scenario}", tmp_path / "run")
    stored = json.loads((tmp_path / "run" / "record.json").read_text())
    settings = ["data.tasks=3", "data.classes=6", "data.per_class=40", "train.epochs=6", "train.lr=0.01"]
    settings += ["train.batch_size=16", "network.name=convnet", "network.width=4", "threads=1", "keep=last"]
    settings += ["learner.dense_share=0.15"]  # the default of its time
    config = snv.load_config(overrides=["method=snv", f"scenario={scenario}", "train.precision=fp32", *settings])
    record = snv.run(config, tmp_path / "run")
    assert record.status == "finished" and stored["tasks_done"] == 1
    assert record.accuracy[0, 0] == stored["accuracy"][0][0]  # kept, not computed anew
    if scenario == "til":
        assert record.metrics["BWT"] == 0.0

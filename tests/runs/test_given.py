"""A network and data of one's own go through a run like any other, and it goes on with the same ones only."""

from __future__ import annotations

import signal

import numpy as np
import pytest
import torch
from torch import nn

import snv
from snv.config import load_config
from snv.data import load_source
from snv.errors import Interrupted, UserError
from snv.runs import evaluate_run, run, value_run
from snv.runs.given import mark_of_images, mark_of_network

QUICK = ["data.tasks=2", "data.classes=4", "data.per_class=20", "train.epochs=2", "threads=1"]


def module(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    body = nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.AdaptiveAvgPool2d(2))
    return nn.Sequential(body, nn.Flatten(), nn.Linear(24, 10), nn.ReLU(), nn.Linear(10, 7))


def pair(shift: int = 0) -> tuple[np.ndarray, np.ndarray]:
    digits = load_source("digits")
    with np.load(f"{snv.__path__[0]}/data/digits.npz") as file:
        return (file["images"] + shift).astype(np.uint8), digits.labels


@pytest.mark.parametrize("method", ["sgd", "snv", "icarl"])
def test_a_network_of_ones_own_is_trained_from_its_own_weights(method, tmp_path):
    own = module()
    before = [x.clone() for x in own.state_dict().values()]
    record = run(load_config(None, [*QUICK, f"method={method}"]), tmp_path, network=own)
    assert record.status == "finished" and record.config["network"]["name"] == "own"
    assert all(torch.equal(a, b) for a, b in zip(before, own.state_dict().values(), strict=True))
    assert run(load_config(None, [*QUICK, f"method={method}"]), tmp_path, network=own).status == "finished"
    assert all(row.same for row in evaluate_run(tmp_path, network=own))


def test_its_weights_are_the_initial_ones(tmp_path):
    """Networks that differ in their weights alone have different losses in their first epoch."""
    logs = []
    for k, seed in enumerate((0, 0, 1)):
        run(load_config(None, QUICK), tmp_path / str(k), network=module(seed), stop_after=1)
        logs.append((tmp_path / str(k) / "log.jsonl").read_text())
    assert logs[0] == logs[1] != logs[2]


def test_a_run_with_ones_own_goes_on_to_the_same_bits_and_refuses_others(tmp_path):
    config, own, data = load_config(None, [*QUICK, "method=snv"]), module(), pair()
    whole = run(config, tmp_path / "whole", network=own, data=data)
    out = tmp_path / "cut"
    with pytest.raises(Interrupted):
        stop = lambda what, *_: signal.raise_signal(signal.SIGTERM) if "task 2" in what else None  # noqa: E731
        run(config, out, stop, network=own, data=data)
    for handed, told in (
        ({"network": module(1), "data": data}, "began with another network"),
        ({"network": own, "data": pair(1)}, "began with another images|data of this run have changed"),
        ({"data": data}, "network.name was 'own' and is now 'auto'"),
        ({"network": own}, "data.name was 'own:arrays' and is now 'digits'"),
    ):
        with pytest.raises(UserError, match=told):
            run(config, out, **handed)
    assert run(config, out, network=own, data=data).results() == whole.results()
    with pytest.raises(UserError, match=r"The data of this run were given in Python"):
        evaluate_run(out)
    with pytest.raises(UserError, match=r"The network of this run was given in Python"):
        evaluate_run(out, data=data)
    assert len(value_run(out, 1, draws=2, network=own, data=data)) == 6 + 10


def test_a_source_that_is_given_is_the_one_that_is_named(tmp_path):
    named = run(load_config(None, QUICK), tmp_path / "named")
    given = run(load_config(None, QUICK), tmp_path / "given", data=load_source("digits"))
    assert given.config["data"]["name"] == "own:digits"
    assert given.results() == named.results()


@pytest.mark.parametrize(
    ("overrides", "handed", "told"),
    [
        (["network.width=4"], {"network": module()}, "has no settings here"),
        (
            ["method=pec", "scenario=cil"],
            {"network": module()},
            "pec trains a network of its own, not yours. Leave yours out\\.$",
        ),
        (["method=nispa"], {"network": module()}, r"Leave yours out, or set learner\.network=adapted"),
        (["data.size=9"], {"data": pair()}, r"data\.size says nothing about data that are given"),
        (["data.name=cifar10"], {"data": pair()}, r"data\.name is 'cifar10'"),
        ([], {"network": nn.Sequential(nn.Conv2d(3, 4, 3))}, "cannot read images of shape"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(overrides, handed, told, tmp_path):
    with pytest.raises(UserError, match=told):
        run(load_config(None, [*QUICK, *overrides]), tmp_path / "run", **handed)
    assert not (tmp_path / "run").exists()


def test_fingerprints_change_with_a_weight_a_layer_and_a_pixel():
    own = module()
    marks = {mark_of_network(own), mark_of_network(module())}
    assert len(marks) == 1
    with torch.no_grad():
        own[2].weight[0, 0] += 1e-3
    assert mark_of_network(own) not in marks
    assert mark_of_network(nn.Sequential(*module(), nn.Identity())) not in marks
    images, labels = pair()
    source = snv.from_arrays(images, labels)
    images = images.copy()
    images[5, 3, 3] ^= 1
    assert mark_of_images(source) == mark_of_images(snv.from_arrays(pair()[0], labels))
    assert mark_of_images(source) != mark_of_images(snv.from_arrays(images, labels))

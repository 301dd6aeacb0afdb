"""Two small runs that the tests of analyses share; copy one before it is changed."""

from __future__ import annotations

import pytest

from snv.config import load_config
from snv.runs import run

SMALL = [
    "data.tasks=2",
    "data.classes=4",
    "data.per_class=40",
    "train.epochs=6",
    "train.lr=0.01",
    "train.batch_size=16",
    "network.name=mlp",
    "network.hidden=[12]",
    "threads=1",
]


@pytest.fixture(scope="session")
def snv_run(tmp_path_factory):
    path = tmp_path_factory.mktemp("snv") / "run"
    run(load_config(None, [*SMALL, "method=snv", "learner.capacity=0.5"]), path)
    return path


@pytest.fixture(scope="session")
def sgd_run(tmp_path_factory):
    path = tmp_path_factory.mktemp("sgd") / "run"
    run(load_config(None, [*SMALL, "method=sgd"]), path)
    return path

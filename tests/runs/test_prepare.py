"""A run that is opened again is the run it was."""

from __future__ import annotations

import json

import pytest
import torch

from snv.config import load_config
from snv.errors import UserError
from snv.files import read_json
from snv.runs import run
from snv.runs.prepare import open_run, prepare, restore

QUICK = ["data.tasks=2", "data.classes=4", "data.per_class=20", "train.epochs=1", "threads=1", "network.width=4"]


def nobody(*_: object) -> None:
    """Hears nothing."""


def test_the_order_and_the_split_asked_for_are_those_of_the_stream():
    order = 'data.order=[["7", "1"], [3]]'
    prepared = prepare(load_config(None, [order]), nobody)
    assert [prepared.stream.names(t) for t in range(len(prepared.stream))] == [("7", "1"), ("3",)]
    with pytest.raises(UserError, match="digits comes without test images of its own"):
        prepare(load_config(None, ["data.split=official"]), nobody)


def test_an_opened_run_has_the_weights_of_its_checkpoint(tmp_path):
    run(load_config(None, QUICK), tmp_path)
    opened = open_run(tmp_path, None, nobody)
    restore(opened.learner, tmp_path, 1)
    first = [x.clone() for x in opened.learner.network.body.state_dict().values()]
    restore(opened.learner, tmp_path, 2)
    second = opened.learner.network.body.state_dict().values()
    assert not all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    with pytest.raises(UserError, match=r"task-003\.safetensors does not exist"):
        restore(opened.learner, tmp_path, 3)


def test_no_file_is_executed_because_a_directory_says_so(tmp_path):
    run(load_config(None, QUICK), tmp_path / "run")
    trap = tmp_path / "trap.py"
    trap.write_text("raise SystemExit('executed')")
    config = read_json(tmp_path / "run" / "config.json")
    (tmp_path / "run" / "config.json").write_text(json.dumps(config | {"method": f"{trap}:Trap"}))
    with pytest.raises(UserError, match=r"would be executed\. Allow it: --own-method"):
        open_run(tmp_path / "run", None, nobody)

"""Memory runs out: a run goes on with steps in parts and comes to the same, or stops cleanly and says what to do."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

from narrow import Narrow
from snv.config import load_config
from snv.errors import Interrupted, UserError
from snv.files import load_state
from snv.learners import LEARNERS, SGD
from snv.runs.run import run

SETTINGS = [
    "data.tasks=2",
    "data.classes=4",
    "train.epochs=3",
    "train.patience=0",
    "train.optimizer=sgd",
    "train.lr=0.1",
    "train.precision=fp32",
    "checkpoint_seconds=0",
    "threads=1",
]


def weights(out) -> dict[str, torch.Tensor]:
    return load_state(sorted((out / "checkpoints").glob("task-*"))[-1])["learner"]["network"]


def assert_alike(ours, theirs) -> None:
    assert ours.keys() == theirs.keys()
    for name in ours:
        torch.testing.assert_close(ours[name], theirs[name], rtol=1e-2, atol=1e-4)


def test_steps_in_parts_come_to_the_same_and_the_record_says_so(tmp_path, monkeypatch, caplog):
    config = load_config(None, [*SETTINGS, "method=sgd"])
    whole = run(config, tmp_path / "whole", network=Narrow())
    monkeypatch.setattr(Narrow, "most", 20)  # of 64; evaluation asks 256 at a time
    again = run(config, tmp_path / "parts", network=Narrow())
    assert again.status == "finished"
    assert again.lowered == [{"task": 1, "parts": 4, "same": True}]
    assert whole.lowered == [] and "lowered" not in json.loads((tmp_path / "whole" / "record.json").read_text())
    assert_alike(weights(tmp_path / "parts"), weights(tmp_path / "whole"))
    np.testing.assert_allclose(again.accuracy, whole.accuracy, atol=1.5)
    assert "with every step in 4 parts, whose gradients are added up: the same up to rounding" in caplog.text
    assert "Going on with half as much at once" in caplog.text, "evaluation"


def test_with_batch_norm_it_is_said_that_results_are_others(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(Narrow, "most", 40)
    record = run(load_config(None, [*SETTINGS, "method=sgd"]), tmp_path, network=Narrow(norm=True))
    assert record.lowered == [{"task": 1, "parts": 2, "same": False}]
    assert "BatchNorm then sees 32 images at a time instead of 64, so results are others" in caplog.text


def test_a_run_that_goes_on_keeps_its_parts(tmp_path, monkeypatch, caplog):
    config = load_config(None, [*SETTINGS, "method=sgd"])
    monkeypatch.setattr(Narrow, "most", 40)
    run(config, tmp_path / "whole", network=Narrow())

    def stop_in_task_2(what, done, total):
        import signal

        if what.startswith("task 2 of 2, train") and done > 100:
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Interrupted):
        run(config, tmp_path / "cut", stop_in_task_2, network=Narrow())
    caplog.clear()
    record = run(config, tmp_path / "cut", network=Narrow())
    assert "with every step in" not in caplog.text, "it knew"
    assert record.lowered == [{"task": 1, "parts": 2, "same": True}]
    for ours, theirs in zip(weights(tmp_path / "cut").values(), weights(tmp_path / "whole").values(), strict=True):
        assert torch.equal(ours, theirs)


class Unsure(SGD):
    """A method derived from another one, whose card does not speak for it."""


def test_a_method_that_cannot_stops_cleanly_and_goes_on_where_there_is_room(tmp_path, monkeypatch):
    monkeypatch.setitem(LEARNERS, "unsure", Unsure)
    config = load_config(None, [*SETTINGS, "method=unsure"])
    run(config, tmp_path / "whole", network=Narrow())

    def less_room(what, done, total):
        if what.startswith("task 2 of 2, train") and done > 100:
            monkeypatch.setattr(Narrow, "most", 40)

    with pytest.raises(UserError, match=r"a step of 64 images .* does not make its steps in parts\. Lower train\."):
        run(config, tmp_path / "cut", less_room, network=Narrow())
    monkeypatch.setattr(Narrow, "most", 10**9)
    assert run(config, tmp_path / "cut", network=Narrow()).lowered == []
    for ours, theirs in zip(weights(tmp_path / "cut").values(), weights(tmp_path / "whole").values(), strict=True):
        assert torch.equal(ours, theirs)


def test_where_parts_would_be_single_images_it_stops_cleanly(tmp_path, monkeypatch):
    monkeypatch.setattr(Narrow, "most", 2)
    with pytest.raises(UserError, match=r"Lower train\.batch_size \(now 3\) with a new --out\. Everything up to"):
        run(load_config(None, [*SETTINGS, "method=sgd", "train.batch_size=3"]), tmp_path, network=Narrow())


REALLY = """
import resource
from pathlib import Path
from snv.config import load_config
from snv.errors import UserError
from snv.runs.memory import _in_status
from snv.runs.run import run

settings = ["network.name=convnet", "network.width=64", "data.tasks=2", "data.classes=4", "threads=1"]
settings += ["train.epochs=1", "method=sgd"]
run(load_config(None, [*settings, "train.batch_size=32"]), Path("small"))  # everything is loaded
most, stops, record = _in_status("VmSize"), 0, None
while record is None:
    most += 20 * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
    try:
        record = run(load_config(None, [*settings, "train.batch_size=512"]), Path("large"))
    except UserError as error:
        assert "Everything up to the last checkpoint is in large: with more memory free, the same" in str(error), error
        stops += 1
print(record.status, len(record.lowered) + stops)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are those of Linux")
def test_where_the_system_really_gives_no_more_memory_a_run_goes_on_or_stops_and_continues_with_more(tmp_path):
    """20 MiB more than nothing, and 20 more each time that it stops."""
    told = subprocess.run([sys.executable, "-c", REALLY], cwd=tmp_path, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    status, times = told.stdout.split()
    assert status == "finished"
    assert int(times) >= 1

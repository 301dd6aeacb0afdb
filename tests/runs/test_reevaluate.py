"""A run measured again says what its record says, and if not, by how much."""

from __future__ import annotations

import json

import pytest

from snv.config import load_config
from snv.errors import UserError
from snv.files import read_json
from snv.runs import evaluate_run, run

QUICK = ["data.tasks=3", "data.classes=6", "data.per_class=40", "train.epochs=2", "threads=1", "network.name=convnet"]
QUICK += ["network.width=4"]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A run of SNV in CIL, whose answers use all it keeps."""
    out = tmp_path_factory.mktemp("recorded") / "run"
    run(load_config(None, [*QUICK, "method=snv", "scenario=cil"]), out)
    return out


def test_every_kept_checkpoint_gives_its_row_to_the_last_bit(recorded):
    rows = evaluate_run(recorded, every=True)
    assert [row.task for row in rows] == [1, 2, 3]
    assert all(row.same and row.difference == 0 for row in rows)
    assert [len(row.measured) for row in rows] == [2, 3, 3]
    assert [len(row.measured_known) for row in rows] == [1, 2, 3]
    assert [row.same_details for row in rows] == [None, None, True]


def test_the_newest_is_measured_unless_a_task_is_named(recorded):
    assert [row.task for row in evaluate_run(recorded)] == [3]
    assert [row.task for row in evaluate_run(recorded, 2)] == [2]


def test_what_differs_is_found(recorded, tmp_path):
    import shutil

    shutil.copytree(recorded, tmp_path / "run")
    record = read_json(tmp_path / "run" / "record.json")
    record["accuracy"][2][0] -= 1.5
    record["details"]["confusion"][0] = "0:1"
    (tmp_path / "run" / "record.json").write_text(json.dumps(record))
    (row,) = evaluate_run(tmp_path / "run")
    assert not row.same
    assert row.difference == pytest.approx(1.5)
    assert row.same_details is False


def test_a_task_without_a_row_or_a_checkpoint_is_refused(recorded, tmp_path):
    with pytest.raises(UserError, match="accuracies after the tasks 1, 2, 3; got --task 4"):
        evaluate_run(recorded, 4)
    run(load_config(None, [*QUICK, "method=sgd", "data.tasks=2", "keep=last"]), tmp_path)
    with pytest.raises(UserError, match=r"task-001\.safetensors does not exist"):
        evaluate_run(tmp_path, 1)
    assert [row.task for row in evaluate_run(tmp_path, every=True)] == [2]

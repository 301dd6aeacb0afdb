"""What neurons were worth is known of older runs too, from their checkpoints."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from snv.config import load_config
from snv.errors import UserError
from snv.runs import NeuronTable, neurons_of, run

BEFORE = Path(__file__).parents[1] / "before"
QUICK = ["data.tasks=2", "data.classes=4", "train.epochs=2", "network.name=mlp", "network.hidden=[12]", "threads=1"]


def test_without_a_table_the_newest_checkpoint_gives_the_same(tmp_path):
    run(load_config(None, [*QUICK, "method=snv"]), tmp_path)
    kept = NeuronTable.load(tmp_path / "neurons.npz")
    (tmp_path / "neurons.npz").unlink()
    found = neurons_of(tmp_path)
    assert (found.layers, found.sizes) == (kept.layers, kept.sizes)
    np.testing.assert_array_equal(found.values, kept.values)
    np.testing.assert_array_equal(found.masks, kept.masks)


def test_a_run_of_an_older_version_has_one(tmp_path):
    shutil.copytree(BEFORE / "run-til", tmp_path / "run")
    table = neurons_of(tmp_path / "run")
    assert table.masks.shape == (1, sum(table.sizes)) and table.masks.any()


def test_a_method_that_values_none_has_none_and_a_run_without_a_task_is_refused(tmp_path):
    run(load_config(None, QUICK), tmp_path, stop_after=1)
    assert neurons_of(tmp_path) is None
    (tmp_path / "checkpoints" / "task-001.safetensors").unlink()
    with pytest.raises(UserError, match="no checkpoint of a task"):
        neurons_of(tmp_path)

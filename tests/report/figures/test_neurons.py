from __future__ import annotations

import numpy as np
import pytest

from invented import a_result, a_table, with_table
from snv.errors import UserError
from snv.report.figures.neurons import short_name, split_by_layer, with_neurons


def test_the_first_run_with_masks_is_taken(tmp_path):
    results = [
        a_result(tmp_path, "sgd"),
        with_table(a_result(tmp_path, "snv", seed=1)),
        with_table(a_result(tmp_path, "snv")),
    ]
    assert with_neurons(results, "concept")[0] is results[1]


def test_without_masks_it_is_said_which_runs_have_them(tmp_path):
    with pytest.raises(UserError, match=r"runs of snv and snv-paper keep them. Try: snv figure overlap runs/snv"):
        with_neurons([a_result(tmp_path, "sgd")], "overlap")


def test_layers_are_parts_of_the_last_axis():
    table = a_table()
    parts = split_by_layer(table, table.masks)
    assert [part.shape for part in parts] == [(4, 5), (4, 8), (4, 3)]
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), table.masks)
    assert short_name("body.conv1") == "conv1"

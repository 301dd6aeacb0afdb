"""What neurons were worth, and to whom, on disk."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from snv.errors import UserError
from snv.networks import build_network
from snv.neurons import NeuronTable, find_neurons


def neurons():
    body = build_network("mlp", (1, 4, 4), 0, hidden=(5, 3)).body
    return find_neurons(body, torch.zeros(2, 1, 4, 4), include=["*"])


def a_table(n_values: int = 2, n_masks: int = 2) -> NeuronTable:
    rng = torch.Generator().manual_seed(0)
    values = [torch.randn(8, generator=rng, dtype=torch.float64) for _ in range(n_values)]
    values[0][3] = torch.nan
    return NeuronTable.of(neurons(), values, [torch.rand(8, generator=rng) < 0.5 for _ in range(n_masks)])


def test_a_table_has_one_row_per_task_and_one_column_per_neuron_layer_after_layer():
    table = a_table()
    assert (table.layers, table.sizes) == (tuple(layer.name for layer in neurons().layers), (5, 3))
    assert table.values.shape == table.masks.shape == (2, 8)
    assert (table.values.dtype, table.masks.dtype) == (np.float32, np.bool_)


@pytest.mark.parametrize(("n_values", "rows"), [(2, 1), (1, 1)])
def test_a_task_that_is_valued_but_has_no_subnetwork_yet_is_left_out(n_values, rows):
    assert len(a_table(n_values, 1).values) == rows
    assert a_table(1, 0).masks.shape == (0, 8)


def test_what_is_loaded_is_what_was_saved_and_saving_twice_gives_the_same_bytes(tmp_path):
    table = a_table()
    table.save(tmp_path / "a.npz")
    table.save(tmp_path / "b.npz")
    again = NeuronTable.load(tmp_path / "a.npz")
    assert (again.layers, again.sizes) == (table.layers, table.sizes)
    np.testing.assert_array_equal(again.values, table.values)  # nan stays nan
    np.testing.assert_array_equal(again.masks, table.masks)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_a_damaged_or_foreign_file_is_named(tmp_path):
    whole = tmp_path / "whole.npz"
    a_table().save(whole)
    (tmp_path / "half.npz").write_bytes(whole.read_bytes()[:100])
    np.savez(tmp_path / "other.npz", images=np.zeros(3))
    table = a_table()
    NeuronTable(table.layers, (5, 4), table.values, table.masks).save(tmp_path / "wrong.npz")
    np.save(tmp_path / "plain.npy", np.zeros(3))
    for name in ("half.npz", "other.npz", "wrong.npz", "plain.npy"):
        with pytest.raises(UserError, match=rf"{name} .*holds no table of neurons"):
            NeuronTable.load(tmp_path / name)

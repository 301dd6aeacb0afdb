"""Which weights belong to neurons whatever the task, and how many are left."""

from __future__ import annotations

import torch
from torch import nn

from snv.neurons.find import find_neurons
from snv.neurons.wiring import n_weights_outside, no_entries, own_weights


def network():
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 4, 1, bias=False))
    return find_neurons(model, torch.rand(2, 2, 5, 5), include=["*"])


def test_norm_entries_are_not_among_the_weights_of_all_tasks():
    assert [owned.name for owned in own_weights(network())] == ["0.weight", "0.bias", "3.weight"]


def test_entries_are_rows_of_a_bias_and_rows_and_columns_of_other_tensors():
    assert [entries.shape for entries in no_entries(network())] == [(3, 2), (3,), (4, 3)]
    assert not any(entries.any() for entries in no_entries(network()))


def test_weights_outside_some_entries_are_counted_with_all_their_taps():
    neurons = network()
    entries = no_entries(neurons)
    everything = 3 * 2 * 9 + 3 + 4 * 3
    assert n_weights_outside(neurons, entries) == everything
    entries[0][1, 0] = True  # 9 taps
    entries[1][2] = True
    assert n_weights_outside(neurons, entries) == everything - 10

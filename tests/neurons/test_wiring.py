"""Which weights belong to neurons whatever the task, and how many are left."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from snv.errors import UserError
from snv.networks import build_network
from snv.neurons.find import find_neurons
from snv.neurons.wiring import n_weights_outside, no_entries, own_weights, units_of


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


def wired(name: str, shape: tuple[int, int, int], **options):
    body = build_network(name, shape, 0, **options).body
    return units_of(find_neurons(body, torch.zeros(2, *shape), include=["*"]))


def test_every_neuron_of_a_plain_network_is_a_unit_that_the_next_layer_reads():
    units = wired("mlp", (1, 2, 3), hidden=[4, 5])
    assert units.layers == (range(4), range(4, 9))
    first, second = units.connections
    assert first.targets.tolist() == [0, 1, 2, 3]
    assert first.sources.tolist() == [9] * 6, "the image, which stands behind all units"
    assert second.sources.tolist() == [0, 1, 2, 3]
    assert units.features.tolist() == [4, 5, 6, 7, 8]


def test_neurons_that_add_to_one_stream_are_one_unit():
    units = wired("resnet18", (3, 32, 32), width=2)
    at = {c.name: c for c in units.connections}
    stream = at["conv1"].targets.tolist()
    assert stream == at["layer1.0.conv2"].targets.tolist() == at["layer1.1.conv2"].targets.tolist()
    for reader in ("layer1.0.conv1", "layer1.1.conv1", "layer2.0.conv1", "layer2.0.shortcut.0"):
        assert at[reader].sources.tolist() == stream
    assert at["layer1.0.conv1"].targets.tolist() != stream
    assert at["layer2.0.shortcut.0"].targets.tolist() == at["layer2.0.conv2"].targets.tolist()
    assert units.features.tolist() == at["layer4.1.conv2"].targets.tolist()
    assert [len(layer) for layer in units.layers] == [2, 2, 2, 4, 4, 4, 8, 8, 8, 16, 16, 16]


def test_a_channel_that_is_flattened_is_read_by_as_many_columns_as_positions():
    model = nn.Sequential(nn.Conv2d(1, 3, 1), nn.ReLU(), nn.Flatten(), nn.Linear(12, 2), nn.ReLU())
    units = units_of(find_neurons(model, torch.zeros(2, 1, 2, 2), include=["*"]))
    assert units.connections[1].sources.tolist() == [0] * 4 + [1] * 4 + [2] * 4


def test_connections_between_units_and_to_classes():
    units = wired("mlp", (1, 2, 3), hidden=[4, 5])
    sources, targets = (units.mask(False, image=False, classes=False) for _ in range(2))
    sources[1], targets[6] = True, True
    assert units.connections[1].between(sources, targets).nonzero().tolist() == [[2, 1]]
    head, features = units.head(nn.Linear(5, 2)), units.mask(True, image=False, classes=False)
    assert head.between(features, units.mask(False, image=False, classes=True)).all()
    assert not head.between(features, features).any()


def test_a_network_that_cannot_be_followed_is_refused():
    class Shuffled(nn.Sequential):
        def forward(self, images):
            return self[1](self[0](images).cumsum(1))

    model = Shuffled(nn.Conv2d(1, 3, 1), nn.Conv2d(3, 2, 1))
    with pytest.raises(UserError, match=r"What 1 reads cannot be followed"):
        units_of(find_neurons(model, torch.zeros(2, 1, 2, 2), include=["*"]))

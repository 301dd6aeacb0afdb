"""Weights drawn anew."""

from __future__ import annotations

import torch

from snv.components.redraw import redraw
from snv.networks import build_network
from snv.neurons import find_neurons, no_entries, own_weights
from snv.seeding import generator


def drawn(where: bool):
    network = build_network("convnet", (1, 8, 8), 0, width=16)
    neurons = find_neurons(network.body, torch.zeros(2, 1, 8, 8), include=["*"])
    before = [owned.tensor.detach().clone() for owned in own_weights(neurons)]
    redraw(neurons, [entries.fill_(where) for entries in no_entries(neurons)], generator(0, "test"))
    return before, [owned.tensor.detach() for owned in own_weights(neurons)]


def test_only_the_entries_named_are_drawn():
    before, after = drawn(False)
    assert all(torch.equal(old, new) for old, new in zip(before, after, strict=True))


def test_drawn_weights_are_others_of_the_size_of_a_new_network():
    for old, new in zip(*drawn(True), strict=True):
        if old.ndim > 1:
            assert not torch.equal(old, new)
            assert 0.8 < float(new.std() / old.std()) < 1.25
        else:
            assert not new.any()

"""What a task reads is all that can change its answers."""

from __future__ import annotations

import torch
from test_specialists import SHAPE, chosen, taught

from snv.neurons import own_weights
from snv.subnetworks.reads import reads


def test_whatever_is_not_read_may_change_and_whatever_is_read_may_not():
    specialists = taught(1)
    parts = reads(specialists.body, specialists.network.head(0), specialists.neurons, chosen(specialists, 0), SHAPE)
    answers = specialists.probe_logits(0)
    with torch.no_grad():
        for part in parts:
            part.owned.tensor[~part.entries] += 1
        assert torch.equal(specialists.probe_logits(0), answers)
        for part in parts:
            row = part.owned.tensor[part.entries]
            part.owned.tensor[part.entries] = row + 0.1
            assert not torch.equal(specialists.probe_logits(0), answers), part.owned.name
            part.owned.tensor[part.entries] = row


def test_weights_from_silent_neurons_are_not_read():
    specialists = taught(1)
    mask, layers = specialists.subnetworks[0].mask, specialists.neurons.layers
    parts = {part.owned.name: part for part in specialists.reads(0)}
    assert [part.owned.name for part in parts.values()] == [owned.name for owned in own_weights(specialists.neurons)]
    between = mask[layers[1].neurons][:, None] & mask[layers[0].neurons]
    assert torch.equal(parts["conv2.weight"].entries, between)
    assert parts["conv1.weight"].columns.all(), "images are never silent"
    assert parts["conv2.weight"].weights.shape[:2] == (int(between.any(1).sum()), int(between.any(0).sum()))

"""Which neuron owns a row of a weight, and which parts of weights are in question."""

from __future__ import annotations

import torch

from snv.neurons.find import Neurons, Owned
from snv.shapes import Entries


def own_weights(neurons: Neurons) -> list[Owned]:
    """What belongs to a neuron whatever the task: filter weights and biases (norm entries are kept per task)."""
    return [owned for owned in neurons.owned if owned.role in ("weight", "bias")]


def no_entries(neurons: Neurons) -> list[Entries]:
    """Of each tensor of `own_weights`, nothing: (rows,) of a bias and (rows, columns) of other tensors."""
    return [torch.zeros(owned.tensor.shape[:2], dtype=torch.bool) for owned in own_weights(neurons)]


def n_weights_outside(neurons: Neurons, entries: list[Entries]) -> int:
    """How many weights are not among these entries."""
    pairs = zip(own_weights(neurons), entries, strict=True)
    return sum(int((~inside).sum()) * (owned.tensor.numel() // inside.numel()) for owned, inside in pairs)

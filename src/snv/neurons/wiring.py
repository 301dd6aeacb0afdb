"""Which neuron owns a row of a weight and which one its columns read, and which parts of weights are in question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int64
from torch import Tensor, nn

from snv.errors import UserError
from snv.neurons.find import Neurons, Owned
from snv.shapes import Entries, Mask


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


# ---- from unit to unit


@dataclass(frozen=True, eq=False)
class Connections:
    """The weight of a layer as connections: entry (r, c) leads from unit ``sources[c]`` to unit ``targets[r]``."""

    name: str
    module: nn.Module
    targets: Int64[Tensor, " rows"]
    sources: Int64[Tensor, " columns"]

    @property
    def weight(self) -> Tensor:
        module: Any = self.module
        weight: Tensor = module.weight
        return weight

    def between(self, sources: Mask, targets: Mask) -> Entries:
        """The connections from these units to those, (rows, columns)."""
        return targets[self.targets][:, None] & sources[self.sources]


@dataclass(frozen=True, eq=False)
class Units:
    """Neurons whose signals are added up are one unit, as in the stream of a residual network; made by `units_of`.

    A mask over units has two more entries: the image, which the first layer reads, and the classes, whose heads read
    the features.
    """

    of_neuron: Int64[Tensor, " n"]
    layers: tuple[range, ...]  # units side by side
    connections: tuple[Connections, ...]  # of all layers
    features: Int64[Tensor, " f"]  # the unit behind each feature

    @property
    def n(self) -> int:
        return self.layers[-1].stop

    def mask(self, units: bool, image: bool, classes: bool) -> Mask:
        return torch.tensor([*[units] * self.n, image, classes])

    def head(self, head: nn.Linear) -> Connections:
        """The connections from features to classes."""
        return Connections("head", head, torch.full((head.out_features,), self.n + 1), self.features)


def units_of(neurons: Neurons) -> Units:
    """The units of a network, and how they are connected; refused if it is not known what some layer reads."""
    for reader in neurons.readers:
        if reader.sources is None or any((source < 0).any() for source in reader.sources):
            raise UserError(
                f"What {reader.name or 'the output'} reads cannot be followed channel by channel, so this network "
                "cannot be wired anew. Use resnet18, convnet or mlp."
            )
    _, of_neuron = _joined(neurons).unique(return_inverse=True)  # in the order of the first neuron of each
    starts = {int(of_neuron[layer.start]): layer.n for layer in neurons.layers}
    layers = tuple(range(start, start + n) for start, n in sorted(starts.items()))
    behind = {reader.name: of_neuron[reader.sources[0]] for reader in neurons.readers if reader.sources}
    connections = []
    for layer in neurons.layers:
        module: Any = layer.module
        image = torch.full(module.weight.shape[1:2], layers[-1].stop)
        connections.append(Connections(layer.name, module, of_neuron[layer.neurons], behind.get(layer.name, image)))
    return Units(of_neuron, layers, tuple(connections), behind[""])


def _joined(neurons: Neurons) -> Int64[Tensor, " n"]:
    """One number per neuron, the same for all whose signals are added up."""
    label, before = torch.arange(neurons.n), None
    while before is None or not torch.equal(label, before):
        before = label.clone()
        for reader in neurons.readers:
            for source in reader.sources or ():
                least = torch.stack([label[s] for s in reader.sources or ()]).amin(0)
                label.scatter_reduce_(0, source, least, "amin")
    return label

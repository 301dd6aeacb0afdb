"""Weights drawn anew, as a new network has them."""

from __future__ import annotations

import math

import torch

from snv.neurons import Neurons, own_weights
from snv.shapes import Entries


@torch.no_grad()
def redraw(neurons: Neurons, entries: list[Entries], rng: torch.Generator) -> None:
    """Random weights of the size a new network has: He's for convolutions, uniform for linear maps, biases 0."""
    for owned, where in zip(own_weights(neurons), entries, strict=True):
        plastic, shape = where.to(owned.tensor.device), owned.tensor.shape
        if owned.role == "weight" and len(shape) == 4:
            drawn = torch.randn(shape, generator=rng) * math.sqrt(2 / (shape[0] * shape[2] * shape[3]))
        else:
            bound = 1 / math.sqrt(shape[1]) if len(shape) > 1 else 0.0
            drawn = (2 * torch.rand(shape, generator=rng) - 1) * bound
        owned.tensor[plastic] = drawn.to(owned.tensor.device)[plastic]

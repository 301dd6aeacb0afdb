"""∂v/∂m of a network as a game: how much its payoff changes with each neuron's gate, within a memory limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from snv.neurons import Forward, Means, Neurons
from snv.shapes import Gates, Indices
from snv.shapley import Payoffs
from snv.valuation.examples import Examples
from snv.valuation.hooked import gated_logits, n_bytes
from snv.valuation.payoffs import Payoff

SUMMED = 1024  # parts of a gradient that are added up together


@dataclass(frozen=True, eq=False)
class Slopes:
    """Of one network, payoff and data."""

    model: nn.Module
    forward: Forward
    neurons: Neurons
    means: Means
    payoff: Payoff
    labels: Tensor
    examples: Examples

    def at(self, gates: Gates, rows: Indices, memory: int) -> tuple[Float64[Tensor, "p n"], Payoffs]:
        """∂v/∂m and v at each row of ``gates``, as many of them together as fit."""
        with _frozen(self.model):
            room = max(1, memory // self._bytes_of_one)
            together = max(1, room // len(rows)) if self.neurons.batchable else 1
            found = [self._of_some(part, rows, max(1, room // len(part))) for part in torch.split(gates, together)]
        slopes, values = zip(*found, strict=True)
        return torch.cat(slopes), torch.cat(values)

    def _of_some(self, gates: Gates, rows: Indices, at_once: int) -> tuple[Float64[Tensor, "p n"], Payoffs]:
        """The same for as many coalitions as fit, ``at_once`` rows at a time: one part's graph is alive at once."""
        leaves = [part.to(self.means).clone().requires_grad_() for _, part in self.neurons.by_layer(gates)]
        chunks = torch.split(rows, at_once)
        if len(chunks) > 1 and not self.payoff.samples_examples:
            return self._of_whole(leaves, rows, chunks)
        slopes, values = torch.zeros(gates.shape, dtype=torch.float64), torch.zeros(len(gates), dtype=torch.float64)
        for first in range(0, len(chunks), SUMMED):
            some = chunks[first : first + SUMMED]
            inputs = self.examples.batches(some)
            parts = [self._of_part(leaves, images, chunk) for images, chunk in zip(inputs, some, strict=True)]
            shares = torch.tensor([len(chunk) / len(rows) for chunk in some], dtype=torch.float64)
            slope, value = (torch.stack(part) for part in zip(*parts, strict=True))
            slopes, values = slopes + torch.tensordot(shares, slope, 1), values + shares @ value
        return slopes, values

    def _of_part(self, leaves: list[Tensor], images: Tensor, rows: Indices) -> tuple[Float64[Tensor, "p n"], Payoffs]:
        """∂v/∂m and v on some rows, for payoffs that are means over rows."""
        values = self.payoff.smooth(self._logits(leaves, images), self.labels[rows], rows)
        slopes = torch.autograd.grad(values.sum(), leaves, materialize_grads=True)
        return torch.cat(slopes, dim=1).double().cpu(), values.detach().double().cpu()

    def _of_whole(
        self, leaves: list[Tensor], rows: Indices, chunks: Sequence[Indices]
    ) -> tuple[Float64[Tensor, "p n"], Payoffs]:
        """For any other payoff: v's slope in all logits first, then pulled back chunk by chunk."""
        with torch.no_grad():
            logits = torch.cat([self._logits(leaves, images) for images in self.examples.batches(chunks)], dim=1)
        values = self.payoff.smooth(logits.requires_grad_(), self.labels[rows], rows)
        pull = torch.autograd.grad(values.sum(), logits)[0]
        slopes = torch.zeros(len(leaves[0]), self.neurons.n, dtype=torch.float64)
        for images, slope in zip(self.examples.batches(chunks), torch.split(pull, len(chunks[0]), dim=1), strict=True):
            part = torch.autograd.grad(self._logits(leaves, images), leaves, slope, materialize_grads=True)
            slopes += torch.cat(part, dim=1).double().cpu()
        return slopes, values.detach().double().cpu()

    def _logits(self, leaves: list[Tensor], images: Tensor) -> Float[Tensor, "p b k"]:
        return gated_logits(self.forward, self.neurons, leaves, self.means, images)

    @cached_property
    def _bytes_of_one(self) -> int:
        """What a backward pass keeps of one example, or the example itself, if that is larger."""
        sizes: dict[int, int] = {}

        def keep(tensor: Tensor) -> Tensor:
            sizes[tensor.data_ptr()] = n_bytes(tensor)
            return tensor

        weights = {p.data_ptr() for p in [*self.model.parameters(), *self.model.buffers()]}
        leaves = [torch.ones(1, layer.n).to(self.means).requires_grad_() for layer in self.neurons.layers]
        one = next(self.examples.batches([torch.zeros(1, dtype=torch.long)]))
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            self._logits(leaves, one)
        return max(n_bytes(one), sum(size for place, size in sizes.items() if place not in weights))


@contextmanager
def _frozen(model: nn.Module) -> Iterator[None]:
    """No parameter needs a gradient inside the block."""
    before = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    try:
        for parameter, _ in before:
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter, needed in before:
            parameter.requires_grad_(needed)

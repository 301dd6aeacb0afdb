"""The few connections that a task may train, as parameters of their own.

An optimiser that has nothing else cannot move anything else, whatever its momentum and decay; and connections that are
not there cost it nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn

from snv.components.sparsity import forget_moments
from snv.files import State
from snv.neurons import Connections
from snv.shapes import Indices

Importance = Float[Tensor, " own"]
"""I, one number per connection of a layer."""


def added_importance(before: Tensor, after: Tensor, gradient: Tensor) -> Importance:
    """|(w_after − w_before) · ∂L/∂w| of one step for each connection, summed over the weights of a kernel."""
    return ((after - before) * gradient).abs().reshape(len(before), before.shape[1:].numel()).sum(1)


class OwnConnections:
    """Places, weights and importance of a task's connections, layer by layer and slot by slot."""

    def __init__(
        self, connections: Iterable[Connections], places: Mapping[str, Tensor], importance: Mapping[str, Tensor]
    ) -> None:
        """Of each layer (row, column) of every connection, and what is known of its importance."""
        self.connections = list(connections)
        self.places = {name: x.cpu().clone() for name, x in places.items()}
        self.importance, self.weights = {}, {}
        for c in self.connections:
            weight = c.weight.detach()[self._at(c)]
            self.weights[c.name] = nn.Parameter(weight)
            self.importance[c.name] = importance[c.name].to(weight.device).clone()

    def _at(self, c: Connections) -> tuple[Tensor, ...]:
        return tuple(self.places[c.name].T)

    def take_gradients(self) -> None:
        """From the dense weights, which keep none: no optimiser has them."""
        for c in self.connections:
            assert c.weight.grad is not None
            self.weights[c.name].grad, c.weight.grad = c.weight.grad[self._at(c)], None

    @torch.no_grad()
    def write_back(self) -> None:
        """What an update has made of the weights, into the network; I ← I + |Δw · ∂L/∂w|."""
        for c in self.connections:
            at, new = self._at(c), self.weights[c.name]
            assert new.grad is not None
            self.importance[c.name] += added_importance(c.weight[at], new, new.grad)
            c.weight[at] = new

    @torch.no_grad()
    def move(self, c: Connections, slots: Indices, places: Tensor, optimizer: torch.optim.Optimizer) -> None:
        """Take some connections away and put others there instead, which start at 0 and without momentum."""
        c.weight[tuple(self.places[c.name][slots].T)] = 0
        self.places[c.name][slots] = places
        self.importance[c.name][slots] = 0
        self.weights[c.name][slots] = 0
        forget_moments(optimizer, self.weights[c.name], slots)

    def state(self) -> State:
        """Without the weights, which the network has."""
        return {"places": dict(self.places), "importance": dict(self.importance)}

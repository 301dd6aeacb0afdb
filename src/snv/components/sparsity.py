"""Networks in which few connections exist: places for new ones, and everything else held still."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn

from snv.components.freezing import Frozen
from snv.neurons import Connections, Neurons, Units
from snv.shapes import Entries, Indices, Mask

Masks = dict[str, Tensor]
"""Which connections of each layer, by its name: (rows, columns), where a kernel of a convolution is one connection."""


def at_random(places: Entries, n: int, rng: torch.Generator) -> Entries:
    """``n`` of these places, all equally likely; all of them if there are fewer."""
    where = places.flatten().nonzero()[:, 0]
    return _only(where[torch.randperm(len(where), generator=rng)[:n]], places)


def highest(scores: Float[Tensor, ...], places: Entries, n: int) -> Entries:
    """The ``n`` places with the highest scores; of equal ones the first."""
    where = places.flatten().nonzero()[:, 0]
    return _only(where[scores.flatten()[where].argsort(descending=True, stable=True)[:n]], places)


def _only(where: Indices, like: Entries) -> Entries:
    chosen = torch.zeros(like.numel(), dtype=torch.bool)
    chosen[where] = True
    return chosen.view(like.shape)


def grown(c: Connections, existing: Entries, n: int, stable: Mask, rng: torch.Generator) -> Entries:
    """``n`` new connections towards plastic units, or as many as there is room for.

    Plastic units that lead nowhere get one each before the rest is drawn from all places alike.
    """
    places = c.between(torch.ones_like(stable), ~stable) & ~existing
    leading = set(c.sources[existing.any(0)].tolist())
    lonely = [unit for unit in c.sources.unique().tolist() if not stable[unit] and unit not in leading]
    new = torch.zeros_like(existing)
    for i in torch.randperm(len(lonely), generator=rng)[:n].tolist():
        columns = c.sources == lonely[i]
        new[:, columns] = at_random(places[:, columns], 1, rng)
    return new | at_random(places & ~new, n - int(new.sum()), rng)


def is_first_convolution(connections: Connections, units: Units) -> bool:
    """Whether it reads the image channel by channel: of so few sources none can be left out."""
    return connections.weight.ndim > 2 and bool((connections.sources == units.n).any())


@torch.no_grad()
def disconnect(weight: Tensor, missing: Entries) -> None:
    """A connection that does not exist is a zero."""
    weight[missing] = 0


def forget_moments(optimizer: torch.optim.Optimizer, weights: Tensor, rows: Indices) -> None:
    """New connections start without the momentum of those that had their places in the optimiser before."""
    for moment in optimizer.state.get(weights, {}).values():
        if isinstance(moment, Tensor) and moment.shape == weights.shape:
            moment[rows] = 0


def all_but(
    connections: Iterable[Connections], neurons: Neurons, units: Units, moving: Mapping[str, Entries], free: Mask
) -> Frozen:
    """Everything but the connections that are ``moving``, and the biases and norm entries of ``free`` units."""
    blocks = [(c.weight, ~moving[c.name]) for c in connections]
    rows = [owned for owned in neurons.owned if owned.role != "weight"]
    return Frozen([*blocks, *((owned.tensor, ~free[units.of_neuron[owned.owner]]) for owned in rows)])


@torch.no_grad()
def redraw_plastic(
    neurons: Neurons, units: Units, plastic: Mapping[str, Entries], free: Mask, rng: torch.Generator
) -> None:
    """Kaiming-normal weights for these connections; biases and norm entries of ``free`` units as in a new network."""
    for c in units.connections:
        drawn = nn.init.kaiming_normal_(torch.empty(c.weight.shape), nonlinearity="relu", generator=rng)
        c.weight[plastic[c.name]] = drawn[plastic[c.name]].to(c.weight)
    for owned in neurons.owned:
        if owned.role in ("bias", "norm"):
            scale = (owned.role, owned.attribute) == ("norm", "weight")
            owned.tensor[free[units.of_neuron[owned.owner]]] = float(scale)

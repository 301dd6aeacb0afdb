"""Which neurons a task keeps, and how kept ones stay bit-identical."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from snv.errors import UserError
from snv.neurons import Neurons, Owned
from snv.shapes import Entries, Indices, Mask, Values


def select(
    values: Values,
    layer_of: Indices,
    budget: int,
    layer_share: float = 0.5,
    *,
    free: Mask | None = None,
    barred: Mask | None = None,
    largest: int | None = None,
) -> Mask:
    """S_t: the most valuable neurons (Eq. 1), of which at most ``budget`` cost something.

    A global top-k can empty a layer and cut the network in two, so a ``layer_share`` of the budget is first given to
    the layers in proportion to their size, at least one neuron each, for their own best. The rest is spent globally.
    Neurons in ``free`` (frozen ones, when reuse costs nothing) all come along, or the best of them if that would make
    more than ``largest`` in all. Neurons in ``barred`` or without a value (NaN) are never chosen. Only one for
    each layer may exceed a limit.
    """
    nothing = torch.zeros(len(values), dtype=torch.bool)
    open_to_all = ~nothing if barred is None else ~barred
    limit = len(values) if largest is None else largest
    costly = open_to_all if free is None else open_to_all & ~free
    chosen = _add(nothing, _ranked(values, costly, min(budget, limit)), layer_of, min(budget, limit), layer_share)
    if free is not None:
        room = max(0, limit - int(chosen.sum()))
        chosen = _add(chosen, _ranked(values, open_to_all & free, room), layer_of, room, layer_share)
    return chosen


def _ranked(values: Values, candidates: Mask, wanted: int) -> Indices:
    """Those of the candidates that have a value, best first, if they are as many as wanted (or all)."""
    known = candidates & ~values.isnan()
    if int(known.sum()) < min(wanted, int(candidates.sum())):
        raise UserError(
            f"{wanted} neurons are to be chosen, but only {int(known.sum())} of {int(candidates.sum())} have a value: "
            "no marginal of the others was sampled. Sample more, or use another estimator."
        )
    order = torch.argsort(values.nan_to_num(nan=-math.inf), descending=True, stable=True)
    return order[known[order]]


def _add(chosen: Mask, order: Indices, layer_of: Indices, budget: int, layer_share: float) -> Mask:
    """``budget`` more of ``order``: one for a layer without any, each layer's share of its own best, then globally."""
    needed, shared = chosen.clone(), chosen.clone()
    for layer in range(int(layer_of.max()) + 1):
        inside = layer_of == layer
        quota = math.floor(layer_share * budget * int(inside.sum()) / len(layer_of))
        best = order[inside[order]]
        needed[best[: 0 if bool(chosen[inside].any()) else 1]] = True
        shared[best[:quota]] = True
    after, limit = needed.clone(), int(chosen.sum()) + budget
    for wanted in (order[shared[order]], order):
        rest = wanted[~after[wanted]]
        after[rest[: max(0, limit - int(after.sum()))]] = True
    return after


def coverage_budget(values: Values, share: float) -> int:
    """How many of the best neurons hold ``share`` of all positive value."""
    positive = values.clamp(min=0).sort(descending=True).values
    reached = positive.cumsum(0) >= share * positive.sum() * (1 - 1e-12)
    return int(reached.nonzero()[0]) + 1 if bool(reached.any()) else len(values)


BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integers as wide as a number of so many bytes."""


@dataclass(frozen=True, eq=False)
class _Held:
    tensor: Tensor
    moving: Tensor  # per weight: all bits set if it may move, none if it is frozen
    values: Tensor  # the bits of frozen weights, none for others


class Frozen:
    """Weights that must not move, under any optimiser: `restore` puts their bits back after every step.

    Note: the paper masks their gradient (Eqs. 8 and 9), which momentum and weight decay ignore; putting the value back
    is exact whatever the optimiser does.
    """

    def __init__(
        self, blocks: Iterable[tuple[Tensor, Entries]], released: float = 0.0, rng: torch.Generator | None = None
    ) -> None:
        """``blocks`` are tensors with a mask over their first axis or axes, True = frozen; values are taken now.

        A share ``released`` of the frozen weights, drawn with ``rng``, is let go: an experiment that forgets.
        """
        self._held: list[_Held] = []
        for tensor, mask in blocks:
            frozen = mask.reshape(*mask.shape, *[1] * (tensor.ndim - mask.ndim)).expand(tensor.shape)
            if released:
                frozen = frozen & (torch.rand(tensor.shape, generator=rng) >= released)
            if bool(frozen.any()):
                found = bits(tensor)
                moving = torch.empty_like(found).copy_(frozen).sub_(1)  # True − 1 = 0; 0 − 1 = all bits
                self._held.append(_Held(tensor, moving, found & ~moving))

    @torch.no_grad()
    def restore(self) -> None:
        for held in self._held:
            bits(held.tensor).bitwise_and_(held.moving).bitwise_or_(held.values)

    def unchanged(self) -> bool:
        """Whether every frozen value is, bit for bit, what it was."""
        return all(torch.equal(bits(held.tensor) & ~held.moving, held.values) for held in self._held)


def bits(tensor: Tensor) -> Tensor:
    """The same memory, read as integers."""
    return tensor.detach().view(BITS[tensor.element_size()])


def own_weights(neurons: Neurons) -> list[Owned]:
    """What belongs to a neuron whatever the task: filter weights and biases (norm entries are kept per task)."""
    return [owned for owned in neurons.owned if owned.role in ("weight", "bias")]


def no_entries(neurons: Neurons) -> list[Entries]:
    """Of each tensor of `own_weights`, nothing: (rows,) of a bias and (rows, columns) of other tensors."""
    return [torch.zeros(owned.tensor.shape[:2], dtype=torch.bool) for owned in own_weights(neurons)]


def n_weights_outside(neurons: Neurons, entries: list[Entries]) -> int:
    """How many weights are not among these entries."""
    pairs = zip(own_weights(neurons), entries, strict=True)
    return sum(int((~kept).sum()) * (owned.tensor.numel() // kept.numel()) for owned, kept in pairs)


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

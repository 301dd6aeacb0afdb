"""Which neurons a task keeps, and how kept ones stay bit-identical."""

from __future__ import annotations

import math

import torch

from snv.errors import UserError
from snv.shapes import Indices, Mask, Values


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

"""A quadratic pull of weights back to where they were, each by its importance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from snv.files import State
from snv.networks import NORMS

Weights: TypeAlias = dict[str, Tensor]
"""One tensor per parameter, by its name in the network."""

HOLDS_WEIGHTS_ONLY = (
    "it holds weights, not decisions: no image of an old class is seen again, so in CIL the logits of new classes "
    "rise above all others and every image is answered with a new class."
)


def weighted_distance(now: Mapping[str, Tensor], anchor: Weights, importance: Weights) -> Tensor:
    """Σ_j I_j (θ_j − θ*_j)² over the weights that have an importance (not negative)."""
    names = list(importance)
    distance: Tensor = _WeightedDistance.apply(  # type: ignore[no-untyped-call]
        [anchor[name] for name in names], list(importance.values()), *(now[name] for name in names)
    )
    return distance


class _WeightedDistance(torch.autograd.Function):
    """All tensors in one node of the graph: a sum of many small ones would cost more than a small network's step."""

    @staticmethod
    def forward(ctx: Any, anchor: list[Tensor], importance: list[Tensor], *now: Tensor) -> Tensor:
        moved = torch._foreach_sub(now, anchor)
        ctx.pull = torch._foreach_mul(moved, importance)
        torch._foreach_mul_(moved, ctx.pull)
        return torch.stack(torch._foreach_norm(moved, 1)).sum()  # no entry is negative, so its norm is its sum

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        gradient, ctx.pull = ctx.pull, None  # given away, so a second pass fails instead of scaling it twice
        torch._foreach_mul_(gradient, 2 * upstream[0])
        return None, None, *gradient


def held(network: nn.Module, *, heads: bool, norm_layers: bool = True) -> dict[str, nn.Parameter]:
    """The trained parameters that a later task could move: of the body, of heads (CIL), of norm layers if wanted.

    In TIL old heads get no gradient, so they stay at their anchor by themselves.
    """
    left_out = set()
    if not norm_layers:
        left_out = {id(p) for m in network.modules() if isinstance(m, NORMS) for p in m.parameters(recurse=False)}
    parameters = {name: p for name, p in network.named_parameters() if p.requires_grad and id(p) not in left_out}
    return {name: p for name, p in parameters.items() if heads or not name.startswith("heads.")}


def copied(parameters: Mapping[str, Tensor]) -> Weights:
    """Their values now."""
    return {name: p.detach().clone() for name, p in parameters.items()}


def restored(state: State, network: nn.Module) -> Weights:
    """Saved weights in the memory layout of the network's own, so that their sums repeat bit for bit."""
    like = dict(network.named_parameters())
    return {name: torch.empty_like(like[name], requires_grad=False).copy_(x) for name, x in state.items()}

"""Weights that must not move: put back bit by bit, or given no gradient; and weights that may move less than others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from snv.shapes import Entries

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
                values = bits(tensor)
                moving = torch.empty_like(values).copy_(frozen).sub_(1)  # True − 1 = 0; 0 − 1 = all bits
                self._held.append(_Held(tensor, moving, values & ~moving))

    @torch.no_grad()
    def restore(self) -> None:
        for held in self._held:
            bits(held.tensor).bitwise_and_(held.moving).bitwise_or_(held.values)

    @torch.no_grad()
    def clear_gradients(self) -> None:
        """No gradient for what must not move, so that it counts in no norm and leaves no moment behind."""
        for held in self._held:
            if held.tensor.grad is not None:
                bits(held.tensor.grad).bitwise_and_(held.moving)


class Slowed:
    """Weights of which only a share of every step is taken: `remember` them before it, `restore` them after it."""

    def __init__(self, blocks: Iterable[tuple[Tensor, Tensor]]) -> None:
        """``blocks`` are tensors with the share of a step that is taken back, over their first axis or axes."""
        held = [(tensor, share) for tensor, share in blocks if bool(share.any())]
        self._tensors = [tensor.detach() for tensor, _ in held]
        self._shares = [share.reshape(*share.shape, *[1] * (x.ndim - share.ndim)).to(x) for x, share in held]
        self._before = [tensor.clone() for tensor in self._tensors]

    @torch.no_grad()
    def remember(self) -> None:
        for before, tensor in zip(self._before, self._tensors, strict=True):
            before.copy_(tensor)

    @torch.no_grad()
    def restore(self) -> None:
        for tensor, before, share in zip(self._tensors, self._before, self._shares, strict=True):
            tensor.lerp_(before, share)


def bits(tensor: Tensor) -> Tensor:
    """The same memory, read as integers."""
    return tensor.detach().view(BITS[tensor.element_size()])


def unmoved(layer: nn.Linear, x: Tensor) -> Tensor:
    """What the layer makes of ``x``: gradients pass through it to ``x``, and it gets none itself."""
    return F.linear(x, layer.weight.detach(), None if layer.bias is None else layer.bias.detach())

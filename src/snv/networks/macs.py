"""Multiply-accumulates of a forward pass, counted by PyTorch rather than by hand."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode


def macs(module: nn.Module, shape: Sequence[int]) -> int:
    """Multiply-accumulates of ``module`` for one input of ``shape`` (without the batch axis); FLOPs are twice that.

    Counted on a copy without values, so ``module`` keeps its mode, buffers and gradients, and nothing is computed.
    """
    return flops(module, shape) // 2


def flops(module: nn.Module, shape: Sequence[int]) -> int:
    """Floating-point operations of convolutions and matrix products for one input of ``shape``."""
    ghost = copy.deepcopy(module).to("meta").eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        ghost(torch.empty(1, *shape, device="meta"))
    return int(counter.get_total_flops())

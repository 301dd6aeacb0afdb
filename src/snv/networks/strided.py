"""Right gradients of 1 × 1 convolutions with a stride and few input channels, which PyTorch's CPU library gets wrong.

The weight gradient of such a layer in the channels-last layout writes past its workspace when the input has fewer
channels than a vector of the processor holds (oneDNN, issue 6035): with one thread it corrupts the heap, with more it
returns wrong numbers. Skipping the pixels that the stride skips, and then differentiating a convolution without a
stride, gives the same gradient and never enters that code. Answers are computed as ever.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

WIDEST_VECTOR = 16
"""Numbers of 4 bytes in the widest vector of any processor (AVX-512); AVX2 has 8."""

Stride = tuple[int, ...]


def mend(module: nn.Module) -> None:
    """Give every convolution inside ``module`` that may be hit a gradient that is right on every processor."""
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d) and is_at_risk(layer):
            layer._conv_forward = partial(strided_pointwise, stride=layer.stride)  # type: ignore[method-assign]


def is_at_risk(layer: nn.Conv2d) -> bool:
    """Whether it takes single pixels, skips some, and reads fewer channels than a vector holds."""
    single = layer.kernel_size == (1, 1) and layer.padding in ((0, 0), "valid")
    return single and layer.stride != (1, 1) and layer.groups == 1 and layer.in_channels < WIDEST_VECTOR


def strided_pointwise(images: Tensor, weight: Tensor, bias: Tensor | None, stride: Stride) -> Tensor:
    """What `F.conv2d` computes, with a gradient of its own on a CPU."""
    if not (torch.is_grad_enabled() and images.device.type == "cpu"):
        return F.conv2d(images, weight, bias, stride)
    if torch.is_autocast_enabled("cpu"):  # changes types on the way, which PyTorch's own functions follow
        return F.conv2d(_seen(images, stride), weight, bias)
    out: Tensor = _StridedPointwise.apply(images, weight, bias, stride)  # type: ignore[no-untyped-call]
    return out


def _seen(images: Tensor, stride: Stride) -> Tensor:
    """The pixels that a 1 × 1 convolution with this stride looks at."""
    return images[:, :, :: stride[0], :: stride[1]]


class _StridedPointwise(torch.autograd.Function):
    """Forward as ever; backward through the pixels that were looked at."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, weight: Tensor, bias: Tensor | None, stride: Stride) -> Tensor:
        ctx.save_for_backward(images, weight)
        ctx.stride = stride
        return F.conv2d(images, weight, bias, stride)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        images, weight = ctx.saved_tensors
        ones, nothing = [1, 1], [0, 0]
        by_seen, by_weight, by_bias = torch.ops.aten.convolution_backward(
            slopes[0],
            _seen(images, ctx.stride),
            weight,
            [len(weight)],
            ones,
            nothing,
            ones,
            False,
            nothing,
            1,
            list(ctx.needs_input_grad[:3]),
        )
        if by_seen is None:
            return None, by_weight, by_bias, None
        by_images = torch.zeros_like(images)
        _seen(by_images, ctx.stride).copy_(by_seen)
        return by_images, by_weight, by_bias, None

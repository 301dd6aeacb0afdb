"""Convolutions that answer small batches faster: their weights are put in the order oneDNN computes in once.

PyTorch leaves weights as they are and reorders them at every call, which for a few small images takes longer than the
multiplications. Answers are the same; the layers stay what they are, and their own weights where they are.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from snv.shapes import Images

EXAMPLES = 8
"""Images of the batch that the order of weights is chosen for; it serves smaller and larger ones."""


@torch.no_grad()
def pack(module: nn.Module, images: Images) -> None:
    """Ready every convolution inside ``module`` that can be, for images like these; nothing of it may be trained on."""
    if images.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return
    sizes: dict[nn.Conv2d, list[int]] = {}
    hooks = [layer.register_forward_hook(partial(_note, sizes)) for layer in module.modules() if _can_be(layer)]
    try:
        module(images[:1].repeat(EXAMPLES, 1, 1, 1).contiguous(memory_format=torch.channels_last))
    finally:
        for hook in hooks:
            hook.remove()
    for layer, size in sizes.items():
        arguments = _arguments(layer)
        weight = torch.ops.mkldnn._reorder_convolution_weight(layer.weight.detach(), *arguments, size)
        layer._conv_forward = partial(_packed, packed=weight, arguments=arguments)  # type: ignore[method-assign]


def _can_be(layer: nn.Module) -> bool:
    plain = isinstance(layer, nn.Conv2d) and layer.weight.dtype == torch.float32
    return plain and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)


def _note(sizes: dict[nn.Conv2d, list[int]], layer: nn.Conv2d, inputs: tuple[Tensor], _: Tensor) -> None:
    sizes[layer] = list(inputs[0].shape)


def _arguments(layer: nn.Conv2d) -> tuple[Any, ...]:
    return list(layer.padding), list(layer.stride), list(layer.dilation), layer.groups


def _packed(images: Tensor, weight: Tensor, bias: Tensor | None, packed: Tensor, arguments: tuple[Any, ...]) -> Tensor:
    """What `F.conv2d` computes; for a single image PyTorch has a faster way of its own."""
    if len(images) == 1:
        padding, stride, dilation, groups = arguments
        return F.conv2d(images, weight, bias, stride, padding, dilation, groups)
    out: Tensor = torch.ops.mkldnn._convolution_pointwise(images, packed, bias, *arguments, "none", [], "")
    return out

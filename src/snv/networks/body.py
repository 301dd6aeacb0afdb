"""What every network body is: images in, one feature vector per image out."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TypeVar

import torch
from torch import Tensor, nn

from snv.shapes import Features, Images

Layer = TypeVar("Layer", bound=nn.Module)


class Body(nn.Module):
    """A feature extractor; heads read its ``n_features`` outputs."""

    n_features: int

    @abstractmethod
    def forward(self, images: Images) -> Features:
        """Features (b, n_features) of images."""

    def __call__(self, images: Images) -> Features:  # for the type checker: nn.Module returns Any
        features: Features = super().__call__(images)
        return features


def blank(layer: Layer) -> Layer:
    """A layer made on "meta", given memory but no values: PyTorch's own would disturb the global generator.

    Note: ``to_empty`` does the same, and loads a second's worth of modules for it.
    """
    for name, parameter in list(layer.named_parameters()):
        setattr(layer, name, nn.Parameter(torch.empty(parameter.shape)))
    return layer


def convolution(inputs: int, outputs: int, kernel: int, stride: int = 1, *, rng: torch.Generator) -> nn.Conv2d:
    """A padded convolution without bias, with He's initialisation (normal, fan-out, ReLU) drawn from ``rng``."""
    layer = blank(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False, device="meta"))
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu", generator=rng)
    return layer


def linear(inputs: int, outputs: int, *, rng: torch.Generator) -> nn.Linear:
    """A linear layer with PyTorch's own initialisation, U(−1/√inputs, 1/√inputs), drawn from ``rng``."""
    layer = blank(nn.Linear(inputs, outputs, device="meta"))
    bound = 1 / math.sqrt(inputs)
    nn.init.uniform_(layer.weight, -bound, bound, generator=rng)
    nn.init.uniform_(layer.bias, -bound, bound, generator=rng)
    return layer


def pooled(maps: Tensor) -> Features:
    """Mean over all positions of (b, c, h, w)."""
    return maps.mean(dim=(2, 3))

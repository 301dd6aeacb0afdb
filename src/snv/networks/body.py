"""What every network body is: images in, one feature vector per image out."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TypeVar

import torch
from torch import Tensor, nn

from snv.shapes import Features, Images

Layer = TypeVar("Layer", bound=nn.Module)
Map = TypeVar("Map", nn.Linear, nn.Conv2d)


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


def linear(inputs: int, outputs: int, *, rng: torch.Generator, bias: bool = True) -> nn.Linear:
    """A linear layer with PyTorch's own initialisation, U(−1/√inputs, 1/√inputs), drawn from ``rng``."""
    return uniform(nn.Linear(inputs, outputs, bias, device="meta"), rng)


def uniform(layer: Map, rng: torch.Generator) -> Map:
    """A layer made on "meta", filled with U(−1/√inputs, 1/√inputs), where a convolution reads a patch of inputs."""
    bound = 1 / math.sqrt(layer.weight[0].numel())
    for parameter in blank(layer).parameters(recurse=False):
        nn.init.uniform_(parameter, -bound, bound, generator=rng)
    return layer


def pooled(maps: Tensor) -> Features:
    """Mean over all positions of (b, c, h, w)."""
    return maps.mean(dim=(2, 3))

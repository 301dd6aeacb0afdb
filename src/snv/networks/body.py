"""What every network body is: images in, one feature vector per image out."""

from __future__ import annotations

import math
from abc import abstractmethod

import torch
from torch import Tensor, nn

from snv.shapes import Features, Images


class Body(nn.Module):
    """A feature extractor; heads read its ``n_features`` outputs."""

    n_features: int

    @abstractmethod
    def forward(self, images: Images) -> Features:
        """Features (b, n_features) of images."""

    def __call__(self, images: Images) -> Features:  # for the type checker: nn.Module returns Any
        features: Features = super().__call__(images)
        return features


def convolution(inputs: int, outputs: int, kernel: int, stride: int = 1, *, rng: torch.Generator) -> nn.Conv2d:
    """A padded convolution without bias, with He's initialisation (normal, fan-out, ReLU) drawn from ``rng``."""
    # made on "meta" and then given memory: PyTorch's own initialisation would disturb the global generator
    layer = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False, device="meta").to_empty(device="cpu")
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu", generator=rng)
    return layer


def linear(inputs: int, outputs: int, *, rng: torch.Generator) -> nn.Linear:
    """A linear layer with PyTorch's own initialisation, U(−1/√inputs, 1/√inputs), drawn from ``rng``."""
    layer = nn.Linear(inputs, outputs, device="meta").to_empty(device="cpu")
    bound = 1 / math.sqrt(inputs)
    nn.init.uniform_(layer.weight, -bound, bound, generator=rng)
    nn.init.uniform_(layer.bias, -bound, bound, generator=rng)
    return layer


def pooled(maps: Tensor) -> Features:
    """Mean over all positions of (b, c, h, w)."""
    return maps.mean(dim=(2, 3))

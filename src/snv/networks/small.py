"""Small bodies: a convnet for images of 8 to 28 pixels, one without norm layers, and a multilayer perceptron."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import nn

from snv.networks.body import Body, blank, convolution, linear, pooled
from snv.shapes import Features, Images


class ConvNet(Body):
    """Two 3×3 convolutions of ``width`` filters, a max-pool, two of twice as many, and a global mean."""

    def __init__(self, rng: torch.Generator, in_channels: int = 1, width: int = 32) -> None:
        super().__init__()
        self.conv1 = convolution(in_channels, width, 3, rng=rng)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = convolution(width, width, 3, rng=rng)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = convolution(width, 2 * width, 3, rng=rng)
        self.bn3 = nn.BatchNorm2d(2 * width)
        self.conv4 = convolution(2 * width, 2 * width, 3, rng=rng)
        self.bn4 = nn.BatchNorm2d(2 * width)
        self.n_features = 2 * width

    def forward(self, images: Images) -> Features:
        x = F.relu(self.bn1(self.conv1(images)))
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x))), 2)
        x = F.relu(self.bn3(self.conv3(x)))
        return pooled(F.relu(self.bn4(self.conv4(x))))


class PlainConvNet(Body):
    """Twice two 3×3 convolutions with biases and a max-pool, then a linear layer; no norm layers (that of NISPA).

    With ``width`` 64 these are 64, 64, 128 and 128 filters and 1,024 units.
    """

    def __init__(self, rng: torch.Generator, shape: Sequence[int], width: int = 64) -> None:
        super().__init__()
        channels, height, columns = shape
        sizes = [channels, width, width, 2 * width, 2 * width]
        self.maps = nn.ModuleList(blank(nn.Conv2d(a, b, 3, padding=1, device="meta")) for a, b in pairwise(sizes))
        n = 2 * width * (height // 4) * (columns // 4)
        self.hidden = blank(nn.Linear(n, 16 * width, device="meta"))
        self.n_features = 16 * width
        for layer in (*self.maps, self.hidden):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu", generator=rng)
            nn.init.zeros_(layer.bias)

    def forward(self, images: Images) -> Features:
        x = images
        for i, layer in enumerate(self.maps):
            x = F.relu(layer(x))
            if i % 2:
                x = F.max_pool2d(x, 2)
        return F.relu(self.hidden(x.flatten(1)))


class MLP(Body):
    """Linear layers of the given ``hidden`` sizes, each followed by ReLU."""

    def __init__(self, rng: torch.Generator, shape: Sequence[int], hidden: Sequence[int] = (256, 256)) -> None:
        super().__init__()
        sizes = [math.prod(shape), *hidden]
        self.layers = nn.ModuleList(linear(a, b, rng=rng) for a, b in pairwise(sizes))
        self.n_features = sizes[-1]

    def forward(self, images: Images) -> Features:
        x = images.flatten(1)
        for layer in self.layers:
            x = F.relu(layer(x))
        return x

"""ResNet-18 (He et al., 2016) of any width, with a stem for small or for large images."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from snv.errors import unknown
from snv.networks.body import Body, convolution, pooled
from snv.shapes import Features, Images

STEMS: dict[str, tuple[int, int, bool]] = {  # kernel, stride, max-pool
    "3x3": (3, 1, False),
    "3x3/2": (3, 2, False),
    "3x3/4": (3, 2, True),
    "7x7/2": (7, 2, True),
}


class BasicBlock(nn.Module):
    """Two 3×3 convolutions and a shortcut, which is a 1×1 convolution where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int, rng: torch.Generator) -> None:
        super().__init__()
        self.conv1 = convolution(inputs, outputs, 3, stride, rng=rng)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = convolution(outputs, outputs, 3, rng=rng)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut.append(convolution(inputs, outputs, 1, stride, rng=rng))
            self.shortcut.append(nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        hidden = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(hidden)) + self.shortcut(x))


class ResNet18(Body):
    """Stem and four stages of two blocks with ``width``, 2, 4 and 8 times as many filters; 64 is the original."""

    def __init__(self, rng: torch.Generator, in_channels: int = 3, width: int = 64, stem: str = "3x3") -> None:
        super().__init__()
        if stem not in STEMS:
            raise unknown("stem", stem, STEMS)
        kernel, stride, pool = STEMS[stem]
        self.conv1 = convolution(in_channels, width, kernel, stride, rng=rng)
        self.bn1 = nn.BatchNorm2d(width)
        self.pool = nn.MaxPool2d(3, 2, 1) if pool else nn.Identity()
        self.layer1 = _stage(width, width, 1, rng)
        self.layer2 = _stage(width, 2 * width, 2, rng)
        self.layer3 = _stage(2 * width, 4 * width, 2, rng)
        self.layer4 = _stage(4 * width, 8 * width, 2, rng)
        self.n_features = 8 * width

    def forward(self, images: Images) -> Features:
        x = self.pool(F.relu(self.bn1(self.conv1(images))))
        return pooled(self.layer4(self.layer3(self.layer2(self.layer1(x)))))


def _stage(inputs: int, outputs: int, stride: int, rng: torch.Generator) -> nn.Sequential:
    return nn.Sequential(BasicBlock(inputs, outputs, stride, rng), BasicBlock(outputs, outputs, 1, rng))

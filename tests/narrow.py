"""A network without room: it raises what PyTorch raises when more images come at once than memory holds."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Narrow(nn.Module):
    """An MLP for digits."""

    most = 10**9

    def __init__(self, norm: bool = False) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.flat, self.hidden, self.act = nn.Flatten(), nn.Linear(64, 32), nn.ReLU()
        self.norm = nn.BatchNorm1d(32) if norm else nn.Identity()
        self.head = nn.Linear(32, 4)
        with torch.no_grad():
            for parameter in (self.hidden.weight, self.hidden.bias, self.head.weight, self.head.bias):
                parameter.copy_(torch.rand(parameter.shape, generator=generator) / 8 - 1 / 16)

    def forward(self, images: Tensor) -> Tensor:
        if len(images) > self.most:
            raise torch.OutOfMemoryError(f"CUDA out of memory. {len(images)} images are too many.")
        return self.head(self.act(self.norm(self.hidden(self.flat(images)))))

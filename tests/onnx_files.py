"""ONNX files of small made-up networks, as somebody would bring them."""

from __future__ import annotations

import warnings
from pathlib import Path

import torch
from torch import nn

WARNINGS = (DeprecationWarning, UserWarning, torch.jit.TracerWarning)


class Maps(nn.Module):
    """Images (b, 3, s, s) to maps (b, f, h, w), or to features if they are averaged over places."""

    def __init__(self, n_features: int = 5, averaged: bool = True) -> None:
        super().__init__()
        self.conv, self.averaged = nn.Conv2d(3, n_features, 3, stride=2), averaged
        with torch.no_grad():
            rng = torch.Generator().manual_seed(0)
            self.conv.weight.copy_(torch.randn(self.conv.weight.shape, generator=rng) / 3)
            self.conv.bias.zero_()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        maps = self.conv(images).relu()
        return maps.mean((2, 3)) if self.averaged else maps


def write_onnx(
    path: Path, network: nn.Module | None = None, size: int | None = 12, batch: int | None = None, channels: int = 3
) -> Path:
    """``size`` and ``batch`` are fixed in the file unless they are None."""
    free = {axis: name for axis, name in ((0, "batch"), (2, "height"), (3, "width")) if batch is None or axis > 0}
    if size is not None:
        free = {axis: name for axis, name in free.items() if axis == 0}
    example = torch.zeros(batch or 2, channels, size or 12, size or 12)
    with warnings.catch_warnings():
        for kind in WARNINGS:
            warnings.simplefilter("ignore", kind)
        torch.onnx.export(
            (network or Maps()).eval(),
            (example,),
            path,
            dynamo=False,
            input_names=["pixels"],
            output_names=["features"],
            dynamic_axes={"pixels": free} | ({"features": {0: "batch"}} if batch is None else {}),
            training=torch.onnx.TrainingMode.PRESERVE,
        )
    return path

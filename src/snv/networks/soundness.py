"""Does this processor compute gradients right? A quick check against float64, made for a process of its own.

``python -m snv.networks.soundness`` prints one line of JSON per check, as soon as it is known: a fault of the kind that
`snv.networks.strided` goes around may corrupt memory and end the process. `examined` starts it and reads the lines.
"""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from snv.networks.strided import mend

CHANNELS = (1, 3, 5, 6, 8, 9, 16, 17)
TOLERANCE = 1e-3
"""Rounding gives 1e-6; the faults that are known 0.03 and more."""
AROUND = "1x1 convolution, stride 2, by PyTorch alone"
"""The one that may fail: our networks do not use it with few channels."""


def layers(channels: int) -> dict[str, nn.Module]:
    """One of each kind that our networks train."""
    kinds: dict[str, nn.Module] = {
        "3x3 convolution": nn.Conv2d(channels, 5, 3, 1, 1),
        "3x3 convolution, stride 2": nn.Conv2d(channels, 5, 3, 2, 1),
        "1x1 convolution": nn.Conv2d(channels, 5, 1),
        "1x1 convolution, stride 2": nn.Conv2d(channels, 5, 1, 2),
        "BatchNorm": nn.BatchNorm2d(channels),
        "linear": nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 5)),
        AROUND: nn.Conv2d(channels, 5, 1, 2),
    }
    mend(kinds["1x1 convolution, stride 2"])
    return kinds


def gradient_error(layer: nn.Module, images: Tensor, repeats: int = 3) -> float:
    """The largest relative error of the weights' gradient against the same layer in float64."""
    twin = copy.deepcopy(layer).double()
    out = twin(images.double())
    pull = torch.randn(out.shape, generator=torch.Generator().manual_seed(1))
    (out * pull).sum().backward()
    wide = images.contiguous(memory_format=torch.channels_last)
    worst = 0.0
    for _ in range(repeats):
        layer.zero_grad()
        (layer(wide) * pull).sum().backward()
        for ours, truth in zip(layer.parameters(), twin.parameters(), strict=True):
            assert ours.grad is not None and truth.grad is not None
            worst = max(worst, float((ours.grad - truth.grad).norm() / truth.grad.norm().clamp(min=1e-12)))
    return worst


def errors() -> Iterator[tuple[str, float]]:
    """(kind, largest error over the numbers of channels), the one that may end the process last."""
    torch.manual_seed(0)
    for kind in layers(1):
        worst = 0.0
        for channels in CHANNELS:
            layer = layers(channels)[kind].to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            worst = max(worst, gradient_error(layer, torch.randn(16, channels, 16, 16)))
        yield kind, worst


def examined(seconds: float = 120) -> dict[str, float]:
    """The error of every kind, found out by another process; infinite for the one that ended it."""
    command = [sys.executable, "-m", "snv.networks.soundness"]
    process = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    by_kind = dict(json.loads(line) for line in process.stdout.splitlines())
    return {kind: by_kind.get(kind, float("inf")) for kind in layers(1)}


def problems(by_kind: dict[str, float]) -> list[str]:
    """A sentence for every kind of layer whose gradient is wrong although our networks use it."""
    return [
        f"this processor computes wrong gradients of a layer ({kind}: relative error {error:.1g}); do not train here. "
        "Set ONEDNN_MAX_CPU_ISA=SSE41 to use other instructions, or update PyTorch."
        for kind, error in by_kind.items()
        if kind != AROUND and not error < TOLERANCE
    ]


if __name__ == "__main__":
    for pair in errors():
        sys.stdout.write(json.dumps(pair) + "\n")
        sys.stdout.flush()

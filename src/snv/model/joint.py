"""A task's whole answer as one module: its specialist and its head in the common space, for pictures in [0, 1].

Modules here are traced, so their shapes are unknown when they run and their signatures say no more than `Tensor`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from snv.model.knowledge import Knowledge
from snv.model.network import detail
from snv.networks import OnnxSpace, PatchSpace
from snv.subnetworks import CommonTask


class Standardised(nn.Module):
    """Pixels in [0, 1] are standardised, then classified, or whatever else is done with them inside."""

    def __init__(self, inner: nn.Module, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.inner = inner
        self.mean: Tensor
        self.std: Tensor
        self.register_buffer("mean", torch.tensor(mean).view(1, -1, 1, 1))
        self.register_buffer("std", torch.tensor(std).view(1, -1, 1, 1))

    def forward(self, images: Tensor) -> Any:
        return self.inner((images - self.mean) / self.std)


class Joint(nn.Module):
    """Of pictures and their features in the common space: two opinions, added with the task's weights."""

    def __init__(self, specialist: nn.Module, part: CommonTask) -> None:
        super().__init__()
        self.specialist = specialist
        self.weight: Tensor
        self.bias: Tensor
        self.register_buffer("weight", part.head.weight.clone())
        self.register_buffer("bias", part.head.bias.clone())
        self.own, self.common = part.weights.tolist()

    def forward(self, images: Tensor, features: Tensor) -> Tensor:
        if features.ndim == 4:  # maps, as some files give them
            features = features.mean((2, 3))
        own: Tensor = self.specialist(images)
        common = features @ self.weight.T + self.bias
        joined: Tensor = self.own * own.log_softmax(1) + self.common * common.log_softmax(1)
        return joined.log_softmax(1)


class Whole(nn.Module):
    """The same for pictures alone, where the space is made of plain layers."""

    def __init__(self, joint: Joint, space: nn.Module) -> None:
        super().__init__()
        self.joint, self.space = joint, space

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.joint(images, self.space(images))
        return logits


class PlainPatches(nn.Module):
    """What `PatchSpace` computes, for batches of any size and in operations that every format has."""

    def __init__(self, space: PatchSpace, shape: tuple[int, int, int]) -> None:
        super().__init__()
        self.space = space
        sizes = [min(seen, most) for seen, most in zip(shape[1:], space.size, strict=True)]
        cells = [side - space.side + 1 for side in sizes]
        self.smaller = Averaged(shape[1:], sizes)
        self.quarters = Averaged(cells, (2, 2))

    def forward(self, images: Tensor) -> Tensor:
        responses = self.space.filters(self.smaller(images))
        threshold = self.space.threshold
        sides = [self.quarters((sign * responses - threshold).clamp(min=0)).flatten(1) for sign in (1, -1)]
        return torch.cat(sides, dim=1).clamp(min=0).sqrt()


class Averaged(nn.Module):
    """Adaptive average pooling as two products, since some formats know only sizes that divide each other."""

    def __init__(self, sizes: Sequence[int], wanted: Sequence[int]) -> None:
        super().__init__()
        self.rows: Tensor
        self.columns: Tensor
        self.same = tuple(sizes) == tuple(wanted)
        self.register_buffer("rows", averaging(sizes[0], wanted[0]))
        self.register_buffer("columns", averaging(sizes[1], wanted[1]).T.contiguous())

    def forward(self, maps: Tensor) -> Tensor:
        return maps if self.same else self.rows @ maps @ self.columns


def averaging(size: int, wanted: int) -> Float[Tensor, "wanted size"]:
    """Row i has the mean of places ⌊i·size/wanted⌋ … ⌈(i + 1)·size/wanted⌉ − 1."""
    weights = torch.zeros(wanted, size)
    for i in range(wanted):
        first, end = i * size // wanted, math.ceil((i + 1) * size / wanted)
        weights[i, first:end] = 1 / (end - first)
    return weights


class Prepared(nn.Module):
    """Standardised pictures as a features file takes them, and as they are."""

    def __init__(self, space: OnnxSpace) -> None:
        super().__init__()
        self.size = space.size
        self.factor: Tensor
        self.shift: Tensor
        self.register_buffer("factor", space.factor.clone())
        self.register_buffer("shift", space.shift.clone())

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        seen = F.interpolate(images, (self.size, self.size), mode="bilinear", align_corners=False)
        return seen * self.factor + self.shift, images * 1.0


def task_answer(knowledge: Knowledge, t: int, specialist: nn.Module, exportable: bool) -> Standardised:
    """What task t answers to pictures in [0, 1], with this module as its specialist."""
    preprocess, times, common = knowledge.preprocess, detail(knowledge.spec), knowledge.specialists.common
    seen = specialist if times == 1 else nn.Sequential(nn.AvgPool2d(times), specialist)
    if common is None:
        return Standardised(seen, preprocess.mean, preprocess.std)
    space: nn.Module = common.space
    if exportable and isinstance(space, PatchSpace):
        space = PlainPatches(space, preprocess.shape)
    return Standardised(Whole(Joint(seen, common.tasks[t]), space), preprocess.mean, preprocess.std)

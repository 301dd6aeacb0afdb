"""Networks of one hidden layer that imitate another; thousands of filters, or many networks at once, at full speed."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from snv.networks.body import linear, uniform
from snv.shapes import Features, Images

BLOCK = {"cpu": 2**19}
"""Hidden activations computed at once when no gradient is wanted: what a core's cache holds, and plenty elsewhere."""


class Imitator(nn.Module):
    """Convolution, instance norm, ReLU, means over a ``grid`` × ``grid`` raster, linear map (Zając et al., 2024)."""

    def __init__(self, inputs: int, width: int, grid: int, outputs: int, rng: torch.Generator) -> None:
        super().__init__()
        self.grid = grid
        self.convolution = uniform(nn.Conv2d(inputs, width, 3, padding=1, device="meta"), rng)
        self.norm = nn.InstanceNorm2d(width, affine=True)
        self.linear = linear(width * grid * grid, outputs, rng=rng)

    def forward(self, images: Images) -> Features:
        """The definition; `answers` and `own_answers` are the same, faster."""
        hidden = F.relu(self.norm(self.convolution(images)))
        features: Features = self.linear(F.adaptive_avg_pool2d(hidden, self.grid).flatten(1))
        return features

    @property
    def filters(self) -> Float[Tensor, "w p"]:
        return self.convolution.weight.flatten(1)


class Patches(NamedTuple):
    """What all imitators read of a batch, computed once."""

    rows: Float[Tensor, "b p1 n"]  # all 3 × 3 neighbourhoods, less their mean, and a last row of ones
    covariance: Float[Tensor, "b p p"]
    raster: Float[Tensor, "n cells"]  # the means over a raster, as a matrix


def patches(images: Images, grid: int) -> Patches:
    around = F.unfold(images, 3, padding=1)  # (b, p, n) with p = 9c and n = h·w
    centred = around - around.mean(2, keepdim=True)
    sides = [F.adaptive_avg_pool1d(torch.eye(side, device=images.device), grid) for side in images.shape[2:]]
    return Patches(F.pad(centred, (0, 0, 0, 1), value=1.0), centred @ centred.mT / around.shape[2], torch.kron(*sides))


def normalised(
    filters: Float[Tensor, "*b w p"],
    scale: Float[Tensor, "*b w"],
    shift: Float[Tensor, "*b w"],
    covariance: Float[Tensor, "m p p"],
) -> Float[Tensor, "m w p1"]:
    """Convolution and instance norm as one linear map of patches: σ² = w Cov w per filter and image; biases cancel."""
    variance = ((filters @ covariance) * filters).sum(-1)  # (m, w)
    scaled = filters * (scale * (variance + 1e-5).rsqrt())[..., None]
    return torch.cat([scaled, shift.expand(variance.shape)[..., None]], dim=-1)


@torch.no_grad()
def answers(imitator: Imitator, batch: Patches) -> Features:
    """What one network says about a batch, computed in pieces that fit into a cache."""
    maps = normalised(imitator.filters, imitator.norm.weight, imitator.norm.bias, batch.covariance)
    n, width = batch.rows.shape[2], maps.shape[1]
    block = BLOCK.get(maps.device.type, 2**27)
    images, channels = max(1, block // (n * width)), max(1, block // n)
    hidden = [
        torch.cat([(part @ rows).relu_() @ batch.raster for part in some.split(channels, dim=1)], dim=1)
        for some, rows in zip(maps.split(images), batch.rows.split(images), strict=True)
    ]
    features: Features = imitator.linear(torch.cat(hidden).flatten(1))
    return features


def own_answers(imitators: list[Imitator], counts: list[int], batch: Patches) -> Features:
    """What the first network says about the first ``counts[0]`` images, the second about the next ones, and so on."""
    of = torch.repeat_interleave(torch.tensor(counts)).to(batch.rows.device)
    filters, scale, shift = (
        torch.stack(tensors)[of]
        for tensors in zip(*((one.filters, one.norm.weight, one.norm.bias) for one in imitators), strict=True)
    )
    hidden = F.relu(normalised(filters, scale, shift, batch.covariance) @ batch.rows) @ batch.raster
    parts = hidden.flatten(1).split(counts)
    return torch.cat([one.linear(part) for one, part in zip(imitators, parts, strict=True)])

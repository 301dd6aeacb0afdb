"""A transformer that sees an image as patches and starts out like a convolution (ConViT, d'Ascoli et al., 2021)."""

from __future__ import annotations

import copy
import math
from itertools import pairwise, product
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from snv.errors import UserError
from snv.networks.body import Body, convolution, linear, uniform
from snv.networks.resnet import ResNet18
from snv.networks.strided import mend
from snv.shapes import Features, Images

Sequence = Float[Tensor, "b n d"]  # n vectors per image
Apart = Float[Tensor, "n n 3"]


# ---- sizes


def matching_width(n: int, depth: int) -> int:
    """The multiple of 32 nearest to D with 12 D² (depth + 1) = n: 12 D² are the weights of a block."""
    return 32 * max(1, round(math.sqrt(n / (12 * (depth + 1))) / 32))


def default_patch(side: int) -> int:
    """Pixels of a patch's side: an image of 32 or 64 pixels has 8 × 8 patches, one of 224 has 14 × 14."""
    return 16 if side >= 128 else 8 if side > 32 else 4


# ---- layers


def apart(rows: int, columns: int) -> Apart:
    """r_ij = (Δx, Δy, Δx² + Δy²) from patch i to patch j, counted in patches."""
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    places = torch.stack([x.flatten(), y.flatten()], dim=1).float()
    steps = places[None] - places[:, None]
    return torch.cat([steps, steps.square().sum(2, keepdim=True)], dim=2)


def first_gazes(heads: int, rng: torch.Generator) -> Float[Tensor, "h 3"]:
    """v = (2a, 2b, −1) of the first g² heads, g = ⌊√heads⌋, with (a, b) on a centred grid; small random of the others.

    As v·r = −‖(Δx, Δy) − (a, b)‖² + const, such a head looks at the patch that is (a, b) away.
    """
    gazes = small(torch.empty(heads, 3), rng)
    side = math.isqrt(heads)
    for head, (b, a) in enumerate(product(range(side), repeat=2)):
        centre = (side - 1) / 2
        gazes[head] = torch.tensor([2 * (a - centre), 2 * (b - centre), -1.0])
    return gazes


def small(tensor: Tensor, rng: torch.Generator) -> Tensor:
    """Filled with a normal distribution of width 0.02, cut off at twice that."""
    return nn.init.trunc_normal_(tensor, std=0.02, a=-0.04, b=0.04, generator=rng)


def perceptron(dim: int, rng: torch.Generator) -> nn.Sequential:
    """The part of a block that treats each vector by itself."""
    return nn.Sequential(linear(dim, 4 * dim, rng=rng), nn.GELU(), linear(4 * dim, dim, rng=rng))


class GatedAttention(nn.Module):
    """A = (1 − σ(λ)) softmax(QKᵀ/√d) + σ(λ) softmax(v·r) per head: what patches show, and where they are.

    Note: the original divides rows by their sum afterwards, which is 1 already.
    """

    def __init__(self, dim: int, heads: int, rng: torch.Generator) -> None:
        super().__init__()
        self.heads = heads
        self.query_key = linear(dim, 2 * dim, rng=rng, bias=False)
        self.value = linear(dim, dim, rng=rng, bias=False)
        nn.init.eye_(self.value.weight)
        self.out = linear(dim, dim, rng=rng)
        self.gaze = nn.Parameter(first_gazes(heads, rng))  # v
        self.gate = nn.Parameter(torch.ones(heads))  # λ

    def forward(self, x: Sequence, r: Apart) -> Sequence:
        query, key = self.query_key(x).unflatten(2, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
        value = self.value(x).unflatten(2, (self.heads, -1)).transpose(1, 2)  # (b, h, n, d / h)
        content = ((query * query.shape[-1] ** -0.5) @ key.mT).softmax(-1)
        position = (r @ self.gaze.T).permute(2, 0, 1).softmax(-1)  # (h, n, n), the same for all images
        gate = self.gate.sigmoid()[:, None, None]
        mixed = ((1 - gate) * content + gate * position) @ value
        mixed = self.out(mixed.transpose(1, 2).flatten(2))
        return cast(Tensor, mixed)


class Block(nn.Module):
    """Attention among the patches of an image, then a perceptron for each, both added to what was there."""

    def __init__(self, dim: int, heads: int, rng: torch.Generator) -> None:
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(dim), GatedAttention(dim, heads, rng)
        self.second_norm, self.mlp = nn.LayerNorm(dim), perceptron(dim, rng)

    def forward(self, x: Sequence, r: Apart) -> Sequence:
        x = x + self.attention(self.norm(x), r)
        return cast(Tensor, x + self.mlp(self.second_norm(x)))


class PatchEncoder(Body):
    """Patches with a learned embedding of their places, then ``depth`` blocks; features are all patches in a row."""

    def __init__(
        self, shape: tuple[int, int, int], patch: int, dim: int, depth: int, heads: int, rng: torch.Generator
    ) -> None:
        super().__init__()
        channels, *sides = shape
        if any(side % patch for side in sides):
            raise UserError(
                f"Patches of {patch} pixels do not fill an image of {sides[0]} × {sides[1]}; take a divisor."
            )
        rows, columns = (side // patch for side in sides)
        self.embed = uniform(nn.Conv2d(channels, dim, patch, patch, device="meta"), rng)
        self.places = nn.Parameter(small(torch.empty(rows * columns, dim), rng))
        self.blocks = nn.ModuleList(Block(dim, heads, rng) for _ in range(depth))
        self.apart: Tensor
        self.register_buffer("apart", apart(rows, columns), persistent=False)
        self.n_features = rows * columns * dim

    def forward(self, images: Images) -> Features:
        x = self.embed(images).flatten(2).mT + self.places
        for block in self.blocks:
            x = block(x, self.apart)
        return cast(Tensor, x.flatten(1))


class MapEncoder(Body):
    """A ResNet-18 without its last stage, then two 1×1 convolutions: every place of its map is a patch.

    The original's other encoder: 256 channels become 384 and, the multiple of 12 heads nearest below twice 256, 504.
    """

    def __init__(self, resnet: ResNet18, heads: int, rng: torch.Generator) -> None:
        super().__init__()
        channels = resnet.n_features // 2
        sizes = (channels, 3 * channels // 2, 2 * channels // heads * heads)
        self.dim = sizes[-1]
        kept = [resnet.conv1, resnet.bn1, nn.ReLU(), resnet.pool, resnet.layer1, resnet.layer2, resnet.layer3]
        self.layers = copy.deepcopy(nn.Sequential(*kept))
        for inputs, outputs in pairwise(sizes):
            self.layers.extend([convolution(inputs, outputs, 1, rng=rng), nn.BatchNorm2d(outputs), nn.ReLU()])
        mend(self.layers)

    def forward(self, images: Images) -> Features:
        return cast(Tensor, self.layers(images).flatten(2).mT.flatten(1))

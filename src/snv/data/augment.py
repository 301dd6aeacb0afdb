"""From raw pixels to network input, as tensor operations on whole batches on the training device."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from snv.errors import unknown
from snv.machine import Part
from snv.shapes import Images, Pixels

if TYPE_CHECKING:
    from snv.data.task import Source

Ready: TypeAlias = Float[Tensor, "b c height width"]  # cropping may change height and width

AUGMENTATIONS = ("none", "crop-flip", "resized-crop")
PADDING = 4  # pixels on every side before a random crop (He et al., 2016)
SCALE = (0.08, 1.0)  # share of the area a resized crop keeps (Szegedy et al., 2015)
RATIO = (3 / 4, 4 / 3)  # its width over its height


@dataclass(frozen=True)
class Preprocess:
    """Standardises pixels by fixed constants, and augments them when given a generator to draw from.

    Random numbers come from a CPU generator, so they are the same whatever the device.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    shape: tuple[int, int, int]  # of one image for the network: channels, height, width
    augmentation: str = "none"

    def __post_init__(self) -> None:
        if self.augmentation not in AUGMENTATIONS:
            raise unknown("augmentation", self.augmentation, AUGMENTATIONS)

    @classmethod
    def of(cls, source: Source) -> Preprocess:
        """What the source itself declares."""
        return cls(source.mean, source.std, source.shape, source.augmentation)

    @property
    def n_bytes(self) -> int:
        """Of one image as it is kept: a byte for each of its numbers."""
        return math.prod(self.shape)

    def __call__(
        self,
        pixels: Pixels,
        device: torch.device | str,
        rng: torch.Generator | None = None,
        channels_last: bool = False,
        part: Part | None = None,
    ) -> Ready:
        """``part``: which images of a larger batch these are, for which is drawn."""
        images = standardised(pixels.to(device), self.mean, self.std)
        _, height, width = self.shape
        if rng is not None and self.augmentation == "resized-crop":
            images = resized_crop(images, (height, width), rng, part)
        else:
            images = centre_crop(images, (height, width))
            if rng is not None and self.augmentation == "crop-flip":
                images = crop_flip(images, rng, part)
        return images.contiguous(memory_format=torch.channels_last if channels_last else torch.contiguous_format)


def standardised(pixels: Pixels, mean: tuple[float, ...], std: tuple[float, ...]) -> Images:
    """(pixels / 255 − mean) / std, per channel, as one multiplication and one addition."""
    factor, shift = _constants(mean, std, pixels.device)
    return pixels.to(torch.float32).mul_(factor).add_(shift)


@lru_cache(maxsize=32)
def _constants(mean: tuple[float, ...], std: tuple[float, ...], device: torch.device) -> tuple[Tensor, Tensor]:
    m, s = (torch.tensor(x, dtype=torch.float64).view(-1, 1, 1) for x in (mean, std))
    return (1 / (255 * s)).to(device, torch.float32), (-m / s).to(device, torch.float32)


def centre_crop(images: Images, size: tuple[int, int]) -> Ready:
    """The middle of every image."""
    top, left = ((have - want) // 2 for have, want in zip(images.shape[2:], size, strict=True))
    return images[:, :, top : top + size[0], left : left + size[1]]


def crop_flip(images: Images, rng: torch.Generator, part: Part | None = None) -> Images:
    """Every image moved by up to 4 pixels each way (zeros come in, the mean colour) and mirrored half of the time."""
    b, c, h, w = images.shape
    n, mine = _among(b, part)
    top, left = torch.randint(0, 2 * PADDING + 1, (2, n, 1), generator=rng)[:, mine]
    mirrored = torch.randint(0, 2, (n, 1), generator=rng, dtype=torch.bool)[mine]
    rows = top + torch.arange(h)  # (b, h), in the padded image
    columns = left + torch.where(mirrored, torch.arange(w).flip(0), torch.arange(w))  # (b, w)
    places = rows[:, :, None] * (w + 2 * PADDING) + columns[:, None, :]  # (b, h, w)
    padded = F.pad(images, (PADDING,) * 4).flatten(2)
    return padded.gather(2, places.view(b, 1, -1).to(images.device).expand(b, c, -1)).view(b, c, h, w)


def resized_crop(images: Images, size: tuple[int, int], rng: torch.Generator, part: Part | None = None) -> Ready:
    """A random part of every image, stretched to ``size`` and mirrored half of the time (Szegedy et al., 2015).

    Note: a part that would not fit is clipped to the image, where torchvision draws again.
    """
    b, c, h, w = images.shape
    n, mine = _among(b, part)
    area = torch.empty(n).uniform_(*SCALE, generator=rng)[mine] * (h * w)
    ratio = torch.empty(n).uniform_(math.log(RATIO[0]), math.log(RATIO[1]), generator=rng)[mine].exp()
    x_scale = ((area * ratio).sqrt() / w).clamp(max=1)  # shares of the full width and height
    y_scale = ((area / ratio).sqrt() / h).clamp(max=1)
    x_centre, y_centre = torch.empty(2, n).uniform_(-1, 1, generator=rng)[:, mine] * (
        1 - torch.stack([x_scale, y_scale])
    )
    sign = 1 - 2 * torch.randint(0, 2, (n,), generator=rng)[mine]
    zero = torch.zeros(b)
    theta = torch.stack([sign * x_scale, zero, x_centre, zero, y_scale, y_centre], dim=1).view(b, 2, 3)
    grid = F.affine_grid(theta.to(images.device), [b, c, *size], align_corners=False)
    return F.grid_sample(images, grid, padding_mode="border", align_corners=False)


def _among(b: int, part: Part | None) -> tuple[int, slice]:
    """How many images are drawn for, and which of them are the ``b`` at hand."""
    return (b, slice(None)) if part is None else (part.of, part.rows)

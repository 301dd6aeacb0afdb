"""A feature map that no task trains: filters for whitened patches, made of the first images it is shown.

Every class ever seen can be compared with every other in it, since it never changes. Filters look in directions
that are drawn at random, or in those that patches cluster around; neither takes a label or a gradient.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from snv.networks.body import Body
from snv.seeding import generator
from snv.shapes import Features, Images

SIDE = 6
"""Pixels of a filter's side, or of the image's if that is smaller."""
LARGEST = 32
"""Larger images are averaged down to this side: filters of this size see no more in larger ones, and cost more."""
THRESHOLD = 0.5
"""How far a response must pass zero to count, on either side."""
RIDGE = 0.1
"""Of the mean variance, added to every direction before whitening, so that noise is not blown up."""
N_IMAGES, N_PATCHES = 600, 66
"""Images that the space is whitened with, and patches of each."""
ROUNDS = 15
"""Of the search for clusters; it has settled by then."""
SMALLEST = 20
"""Patches of a cluster: the mean of fewer would say too much of them, so a random direction takes its place."""
EXACT_CHANNELS = 16
"""Of maps in channels-last memory: multiples of it fill the vectors of every processor; no channel is rounded alone."""
CHUNK = 8
"""Images at a time: what their maps take fits into a processor's cache, which makes this several times faster."""


def whitening(patches: Float[Tensor, "n d"]) -> tuple[Float[Tensor, "d d"], Float[Tensor, " d"]]:
    """Z = V (Λ + r λ̄)^(−½) Vᵀ, with V Λ Vᵀ the covariance of the patches, and their mean."""
    patches = patches.double()
    variances, directions = torch.linalg.eigh(torch.cov(patches.T))
    scales = (variances.clamp(min=0) + RIDGE * variances.mean()).clamp(min=1e-12).rsqrt()
    return directions * scales @ directions.T, patches.mean(0)


Directions: TypeAlias = Literal["random", "clusters"]
"""Where filters look, among whitened patches."""


def clusters(points: Float[Tensor, "n d"], drawn: Float[Tensor, "k d"], rng: torch.Generator) -> Float[Tensor, "k d"]:
    """k directions that points lie along, on either side: spherical k-means; for the smallest clusters, those drawn."""
    points = F.normalize(points, dim=1)
    found = points[torch.randint(len(points), (len(drawn),), generator=rng)]
    sizes = torch.zeros(len(drawn), dtype=torch.long)
    for _ in range(ROUNDS):
        nearest = (points @ found.T).abs_().argmax(1)
        signs = (points * found[nearest]).sum(1, keepdim=True).sign()
        sizes = torch.bincount(nearest, minlength=len(drawn))
        found = F.normalize(torch.zeros_like(found).index_add_(0, nearest, points * signs), dim=1)
    enough = (sizes >= SMALLEST) & (found.norm(dim=1) > 0.5)
    return torch.where(enough[:, None], found, drawn)


def quarters(maps: Float[Tensor, "b c height width"]) -> Float[Tensor, "b c 2 2"]:
    """The means of 2 × 2 cells, which share a middle row or column if there is one.

    As `F.adaptive_avg_pool2d` has them, bit for bit, by a kernel that is faster; where its last bits could differ, or a
    cell would be empty, that function itself.
    """
    channels, height, width = maps.shape[1:]
    if channels % EXACT_CHANNELS or min(height, width) < 2:
        return F.adaptive_avg_pool2d(maps, 2)
    return F.avg_pool2d(maps, ((height + 1) // 2, (width + 1) // 2), (height // 2, width // 2))


class PatchSpace(Body):
    """φ(x): √ of the mean over 2 × 2 cells of relu(±(w∗x − wᵀm) − ½), with w = Zg and ‖g‖ = 1."""

    def __init__(
        self,
        shape: tuple[int, int, int],
        seed: int,
        filters: int | None = None,
        directions: Directions = "random",
    ) -> None:
        """``filters``: by default 4 per pixel of the side, 128 from 32 pixels on; ``directions`` of g."""
        super().__init__()
        self.directions = directions
        channels, height, width = shape
        self.size = min(height, LARGEST), min(width, LARGEST)
        filters = 4 * max(self.size) if filters is None else filters
        self.side = min(SIDE, *self.size)
        self.seed, self.n_features, self.threshold = seed, 8 * filters, THRESHOLD
        self.filters = nn.Conv2d(channels, filters, self.side, device="meta")
        still = torch.zeros(filters, channels, self.side, self.side)  # until it is whitened
        still = still.contiguous(memory_format=torch.channels_last)
        self.filters.weight = nn.Parameter(still, requires_grad=False)
        self.filters.bias = nn.Parameter(torch.zeros(filters), requires_grad=False)

    def patches(self, images: Images, rng: torch.Generator) -> Float[Tensor, "n d"]:
        """Some of every image, at random places."""
        every = F.unfold(self._small(images).cpu(), self.side).transpose(1, 2)  # (b, places, c·side²)
        places = torch.randint(every.shape[1], (len(every), N_PATCHES), generator=rng)
        return every.gather(1, places[:, :, None].expand(-1, -1, every.shape[2])).flatten(0, 1)

    @torch.no_grad()
    def fit(self, patches: Float[Tensor, "n d"]) -> None:
        """Whiten the filters with these patches; nothing of an image is kept but what is common to many."""
        rng = generator(self.seed, "common space")
        z, mean = whitening(patches)
        drawn = torch.randn(self.n_features // 8, patches.shape[1], generator=rng, dtype=torch.float64)
        towards = F.normalize(drawn, dim=1)
        if self.directions == "clusters":
            towards = clusters((patches.double() - mean) @ z, towards, rng)
        filters = towards @ z
        self.filters.weight.copy_(filters.view_as(self.filters.weight))
        self.filters.bias.copy_(-filters @ mean)  # type: ignore[union-attr]

    def forward(self, images: Images) -> Features:
        return torch.cat([self._features(chunk) for chunk in self._small(images).split(CHUNK)])

    def _features(self, images: Images) -> Features:
        responses = self.filters(images.contiguous(memory_format=torch.channels_last))
        above = quarters(responses.clamp(min=THRESHOLD)) - THRESHOLD
        below = -THRESHOLD - quarters(responses.clamp_(max=-THRESHOLD))
        return torch.cat([above, below], dim=1).flatten(1).clamp_(min=0).sqrt_()

    def _small(self, images: Images) -> Float[Tensor, "b c height width"]:
        fits = images.shape[2] <= self.size[0] and images.shape[3] <= self.size[1]
        return images if fits else F.adaptive_avg_pool2d(images, self.size)

"""From features to a sphere, on which classes gather around directions."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from snv.networks.body import linear
from snv.shapes import Features, Values

Spherical = Float[Tensor, "b d"]  # of length 1


class Projector(nn.Module):
    """A hidden layer that all tasks share, as wide as its input, and an output layer that each task starts anew."""

    def __init__(self, n_features: int, dimension: int, rng: torch.Generator) -> None:
        super().__init__()
        self.hidden = linear(n_features, n_features, rng=rng)
        self.output = linear(n_features, dimension, rng=rng)

    @torch.no_grad()
    def renew(self, rng: torch.Generator) -> None:
        """An untrained output layer, in the memory of the old one."""
        fresh = linear(self.output.in_features, self.output.out_features, rng=rng)
        self.output.load_state_dict(fresh.state_dict())

    def forward(self, features: Features, gates: Values) -> Spherical:
        """Of length 1; ``gates`` stand behind the hidden layer."""
        hidden = F.relu(self.hidden(features)) * gates
        return F.normalize(self.output(hidden).float(), dim=1)

"""What a few numbers can say of features: an under-complete auto-encoder, and factors read from its code."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from snv.networks.body import linear
from snv.shapes import Features

Code = Float[Tensor, "b code"]
Factors = Float[Tensor, "b k"]  # Γ, one per image and class


class AutoEncoder(nn.Module):
    """R(f) = W_d relu(W_e f), with fewer numbers in the code between than in the features."""

    def __init__(self, n_features: int, size: int, rng: torch.Generator) -> None:
        super().__init__()
        self.encoder = linear(n_features, size, rng=rng)
        self.decoder = linear(size, n_features, rng=rng)

    def code(self, features: Features) -> Code:
        return F.relu(self.encoder(features))

    def forward(self, features: Features) -> Features:
        restored: Features = self.decoder(self.code(features))
        return restored


class Rescaling(nn.Module):
    """Γ(f) = u ⊙ (V·code(f) + v0) + q for ``n`` classes; u and v0 start at 1 and q at 0."""

    def __init__(self, size: int, n: int, rng: torch.Generator) -> None:
        super().__init__()
        self.map = linear(size, n, rng=rng)  # V, v0
        nn.init.ones_(self.map.bias)
        self.scale = nn.Parameter(torch.ones(n))  # u
        self.shift = nn.Parameter(torch.zeros(n))  # q

    def forward(self, code: Code) -> Factors:
        factors: Factors = self.scale * self.map(code) + self.shift
        return factors

    @torch.no_grad()
    def copy_rows(self, older: Rescaling) -> None:
        """Take over what is known of the first classes."""
        for own, old in zip(self.parameters(), older.parameters(), strict=True):
            own[: len(old)] = old

"""Gaussian classes with one covariance, kept as sums: the order of tasks cannot matter, and a task can be taken away.

Features are rounded to a grid on which float64 adds without rounding. So sums are the same to the last bit whatever the
order, whoever adds them, and subtracting what a task added leaves exactly what would be there without it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from snv.files import State
from snv.shapes import Features, Labels, Logits

GRID = 2.0**-12
"""Of features: products lie on 2^-24, and 2^21 images of features up to `BOUND` stay below the 2^53 of float64."""
BOUND = 16.0
SHRINKAGE = 0.05
"""Of the covariance towards a multiple of the identity: between 0.03 and 0.1 nothing depends on it."""


def on_grid(features: Features) -> Float[Tensor, "b f"]:
    """The nearest values whose sums and products are exact in float64."""
    return (features.double().clamp(-BOUND, BOUND) / GRID).round_().mul_(GRID)


@dataclass(frozen=True, eq=False)
class ClassSums:
    """Of the features of some classes: how many, their sum per class, the sum of all their products."""

    counts: Float[Tensor, " k"]
    sums: Float[Tensor, "k f"]
    products: Float[Tensor, "p p"]  # (f, f); empty where it is kept elsewhere, added to that of other classes

    @staticmethod
    def blank(k: int, n_features: int, device: torch.device | None = None) -> ClassSums:
        counts, sums, products = ((k,), (k, n_features), (n_features, n_features))
        return ClassSums(*(torch.zeros(s, dtype=torch.float64, device=device) for s in (counts, sums, products)))

    def add(self, features: Features, labels: Labels) -> None:
        """Count some images in; ``labels`` are 0 … k−1."""
        x = on_grid(features)
        self.counts.add_(torch.bincount(labels, minlength=len(self.counts)))
        self.sums.index_add_(0, labels, x)
        self.products.add_(x.T @ x)

    def state(self) -> State:
        return {"counts": self.counts, "sums": self.sums, "products": packed(self.products)}

    @staticmethod
    def from_state(state: State, device: torch.device | None = None) -> ClassSums:
        counts, sums, products = (state[name].to(device) for name in ("counts", "sums", "products"))
        return ClassSums(counts, sums, unpacked(products))


def joined(parts: list[ClassSums]) -> ClassSums:
    """All classes side by side, all products added up."""
    products = torch.zeros_like(parts[0].products)
    for part in parts:
        products += part.products
    return ClassSums(torch.cat([p.counts for p in parts]), torch.cat([p.sums for p in parts]), products)


@dataclass(frozen=True, eq=False)
class Discriminant:
    """Scores of Gaussian classes that share a covariance: log-posteriors up to what is the same for all classes."""

    weight: Float[Tensor, "k f"]
    bias: Float[Tensor, " k"]

    def __call__(self, features: Features) -> Logits:
        return features.float() @ self.weight.T + self.bias

    def state(self) -> State:
        return {"weight": self.weight, "bias": self.bias}

    @staticmethod
    def from_state(state: State, device: torch.device | None = None) -> Discriminant:
        return Discriminant(state["weight"].to(device), state["bias"].to(device))


def discriminant(classes: ClassSums, shrinkage: float = SHRINKAGE) -> Discriminant:
    """φᵀA⁻¹μ_c − ½ μ_cᵀA⁻¹μ_c with A = (1 − s)S + s·tr(S)/f·I and S the covariance within classes."""
    counts = classes.counts.clamp(min=1)[:, None]
    means = classes.sums / counts
    within = (classes.products - means.T @ classes.sums) / classes.counts.sum().clamp(min=1)
    level = within.trace() / len(within)
    shrunk = (1 - shrinkage) * within + torch.eye(len(within), dtype=within.dtype, device=within.device) * (
        shrinkage * level + 1e-9
    )
    weight = torch.cholesky_solve(means.T, torch.linalg.cholesky(shrunk)).T
    return Discriminant(weight.float().contiguous(), (-0.5 * (means * weight).sum(1)).float())


def packed(symmetric: Float[Tensor, "f f"]) -> Float[Tensor, " triangle"]:
    """The upper triangle, row by row: half of a symmetric matrix."""
    rows, columns = torch.triu_indices(*symmetric.shape, device=symmetric.device)
    return symmetric[rows, columns]


def unpacked(triangle: Float[Tensor, " triangle"]) -> Float[Tensor, "f f"]:
    """The symmetric matrix of which this is the upper triangle."""
    size = (math.isqrt(8 * len(triangle) + 1) - 1) // 2
    rows, columns = torch.triu_indices(size, size, device=triangle.device)
    symmetric = triangle.new_zeros(size, size)
    symmetric[rows, columns] = triangle
    symmetric[columns, rows] = triangle
    return symmetric

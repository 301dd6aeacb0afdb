"""The equations of DCNet: how images gather around the directions of their classes, and how strongly."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from snv.networks import Spherical
from snv.shapes import Images, Labels, Logits, Values

TEMPERATURE, COOLEST, UNIT = 0.1, 0.05, 0.07
"""Of both losses at first, the least they may have later, and what L_orth is measured in: the authors'."""

Directions = Float[Tensor, "k d"]  # unit vectors


def cosines(f: Spherical, directions: Directions) -> Logits:
    """⟨f_i, b_j⟩."""
    return f @ directions.T


def orthogonal_loss(f: Spherical, directions: Directions, labels: Labels, tau: float, smoothing: float = 0.0) -> Tensor:
    """L_orth = −(τ_o/0.07) mean_i log softmax_j(⟨f_i, b_j⟩/τ_o)[y_i] over the directions of one task."""
    return tau / UNIT * F.cross_entropy(cosines(f, directions) / tau, labels, label_smoothing=smoothing)


def contrastive_loss(f: Spherical, labels: Labels, tau: float) -> Tensor:
    """L_con = −mean_i mean_{j≠i, y_j=y_i} log [exp(⟨f_i, f_j⟩/τ_c) / Σ_{m≠i} exp(⟨f_i, f_m⟩/τ_c)].

    Images that are the only ones of their class are no i; without any i it is 0.
    """
    itself = torch.eye(len(f), dtype=torch.bool, device=f.device)
    log_p = (f @ f.T / tau).masked_fill(itself, -torch.inf).log_softmax(1)
    alike = (labels[:, None] == labels) & ~itself
    n_alike = alike.sum(1)
    per_image = log_p.masked_fill(~alike, 0).sum(1) / n_alike.clamp(min=1)
    return -per_image.sum() / (n_alike > 0).sum().clamp(min=1)


def aggregation(f: Spherical, directions: Directions, labels: Labels) -> Tensor:
    """A = mean over classes of |mean_i ⟨f_i, b_{y_i}⟩|: how closely a task's images gather around their directions."""
    own = cosines(f, directions).gather(1, labels[:, None])[:, 0]
    totals = own.new_zeros(len(directions)).index_add_(0, labels, own)
    counts = torch.bincount(labels, minlength=len(directions))
    return (totals[counts > 0] / counts[counts > 0]).abs().mean()


def orthogonal_temperature(used: Values) -> float:
    """τ_o = max(0.1 (1 − mean M), 0.05): the less room is left, the sharper; M = 0 before the first task."""
    return max(TEMPERATURE * (1 - float(used.mean())), COOLEST)


def contrastive_temperature(degrees: list[float]) -> float:
    """τ_c of the newest of these tasks: 0.1 for the first, later max(0.1 A_t / mean_{s<t} A_s, 0.05)."""
    *before, own = degrees
    return max(TEMPERATURE * own * len(before) / sum(before), COOLEST) if before else TEMPERATURE


def turned(images: Images, labels: Labels, k: int) -> tuple[Float[Tensor, "n c h w"], Int64[Tensor, " n"]]:
    """All images in four rotations; class c turned r times is class c + r·k."""
    return torch.cat([images.rot90(r, (2, 3)) for r in range(4)]), torch.cat([labels + r * k for r in range(4)])

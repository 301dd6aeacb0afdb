"""Directions for classes to gather around: unit vectors that are nearly at right angles, chosen task after task."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from snv.errors import UserError

WIDEST = 0.1
"""The largest |cosine| of two directions."""
STEP = 0.05
MOST_STEPS = 2000

Old = Float[Tensor, "m d"]
New = Float[Tensor, "n d"]


def new_directions(old: Old, n: int, rng: torch.Generator) -> New:
    """``n`` unit vectors beside the old ones: at right angles to all while there is room, then within `WIDEST`."""
    known = old.double().cpu()
    drawn = torch.randn(n, known.shape[1], generator=rng, dtype=torch.float64)
    if len(old) + n <= known.shape[1]:
        orthonormal: Tensor = torch.linalg.qr(torch.cat([known, drawn]).T).Q
        return orthonormal.T[len(old) :].to(old)
    return spread_out(known, F.normalize(drawn)).to(old)


def require_room(dimension: int, n: int, n_tasks: int, rng: Callable[[int], torch.Generator]) -> None:
    """Refuse at once what would fail in a late task: ``n`` directions for each; ``rng`` gives a task's generator."""
    trial = torch.zeros(0, dimension)
    for t in range(n_tasks if n * n_tasks > dimension else 0):
        trial = torch.cat([trial, new_directions(trial, n, rng(t))])


def spread_out(old: Old, new: New) -> New:
    """Descends Σ relu(|⟨b_i, b_j⟩| − 0.1) over new i and all j ≠ i, the others held still in a step."""
    itself = torch.eye(len(new), len(old) + len(new), dtype=torch.bool).roll(len(old), 1)
    for _ in range(MOST_STEPS):
        others = torch.cat([old, new])
        cosines = (new @ others.T).masked_fill(itself, 0)
        too_near = cosines.abs() > WIDEST
        if not bool(too_near.any()):
            return new
        new = F.normalize(new - STEP * (cosines.sign() * too_near) @ others)
    raise UserError(
        f"{len(others)} directions do not fit into {new.shape[1]} dimensions at cosines of at most {WIDEST}. "
        "Raise learner.dimension (256 holds 800)."
    )

"""Several opinions on the same images joined into one: each with a weight that validation images decide."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from snv.shapes import Labels, Logits

STEPS = 50


def weighed(weights: Float[Tensor, " m"], opinions: list[Logits]) -> Logits:
    """Σ w_i log p_i, as log-probabilities."""
    total = torch.stack([w * opinion.double() for w, opinion in zip(weights, opinions, strict=True)]).sum(0)
    return total.log_softmax(1)


@torch.no_grad()
def opinion_weights(opinions: list[Logits], labels: Labels) -> Float[Tensor, " m"]:
    """The weights w ≥ 0 that make Σ w_i log p_i most likely for these labels; an opinion that knows nothing gets 0.

    A convex problem of a few numbers, solved by Newton's method. A weight is also the inverse of a temperature: an
    opinion that is too sure of itself is held back. The small penalty ‖w‖²/2n keeps weights finite where every image is
    answered right.
    """
    stacked = torch.stack([opinion.double() for opinion in opinions])  # (m, b, k)
    true = stacked.gather(2, labels.expand(len(stacked), -1)[:, :, None])[:, :, 0]
    weights = torch.full((len(stacked),), 1 / len(stacked), dtype=torch.float64, device=stacked.device)
    for _ in range(STEPS):
        gradient, curvature = _derivatives(weights, stacked, true)
        step = _newton_step(weights, gradient, curvature)
        size, before = 1.0, _loss(weights, stacked, true)
        while size > 1e-4 and _loss((weights - size * step).clamp(min=0), stacked, true) > before:
            size /= 2
        moved = (weights - size * step).clamp(min=0)
        if bool((moved - weights).abs().max() < 1e-7):
            break
        weights = moved
    return weights.float()


def _loss(weights: Float[Tensor, " m"], stacked: Float[Tensor, "m b k"], true: Float[Tensor, "m b"]) -> float:
    z = torch.einsum("m,mbk->bk", weights, stacked)
    fit = (z.logsumexp(1) - weights @ true).mean()
    return float(fit + weights.square().sum() / (2 * true.shape[1]))


def _derivatives(
    weights: Float[Tensor, " m"], stacked: Float[Tensor, "m b k"], true: Float[Tensor, "m b"]
) -> tuple[Float[Tensor, " m"], Float[Tensor, "m m"]]:
    """Of `_loss`: its gradient, and its curvature, the covariance of opinions under the joint probabilities."""
    p = torch.einsum("m,mbk->bk", weights, stacked).softmax(1)
    expected = (p * stacked).sum(2)  # (m, b)
    n = true.shape[1]
    second = torch.einsum("bk,mbk,jbk->mj", p, stacked, stacked) / n - expected @ expected.T / n
    eye = torch.eye(len(weights), dtype=weights.dtype, device=weights.device)
    return (expected - true).mean(1) + weights / n, second + eye / n


def _newton_step(
    weights: Float[Tensor, " m"], gradient: Float[Tensor, " m"], curvature: Float[Tensor, "m m"]
) -> Float[Tensor, " m"]:
    """Among the weights that are free to move: those at 0 that would become negative stay."""
    free = (weights > 0) | (gradient < 0)
    step = torch.zeros_like(weights)
    if bool(free.any()):
        step[free] = torch.linalg.solve(curvature[free][:, free], gradient[free])
    return step

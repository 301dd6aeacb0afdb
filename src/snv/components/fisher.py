"""The diagonal of the Fisher information: how much the answers of a network depend on each of its weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Literal, TypeAlias

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from snv.components.penalty import Weights
from snv.shapes import Images, Labels, Logits

Answers: TypeAlias = Literal["sampled", "exact", "empirical"]


def answer_weights(
    logits: Logits, labels: Labels, draws: Float[Tensor, " b"], answers: Answers
) -> Float[Tensor, "b k"]:
    """How much each class counts as the answer to each image: one drawn from p(y|x), all by p(y|x), or the label."""
    p = logits.softmax(1)
    if answers == "exact":
        return p
    if answers == "sampled":
        below = p.cumsum(1) < draws.to(p)[:, None]
        labels = below.sum(1).clamp(max=p.shape[1] - 1)  # rounding may leave the last sum a little below 1
    return F.one_hot(labels, p.shape[1]).to(p)


def squared_gradients(
    forward: Callable[[Images], Logits], parameters: list[nn.Parameter], images: Images, weights: Float[Tensor, "b k"]
) -> list[Tensor]:
    """Σ_i Σ_y weight_iy (∂ log p(y|x_i) / ∂θ_j)²: squared image by image (a mean's square is far smaller)."""
    total = [torch.zeros_like(p, requires_grad=False) for p in parameters]
    for image, weight in zip(images.split(1), weights, strict=True):
        log_p = forward(image).log_softmax(1)[0]
        for y in weight.nonzero().flatten().tolist():
            g = torch.autograd.grad(log_p[y], parameters, retain_graph=True, materialize_grads=True)
            torch._foreach_addcmul_(total, torch._foreach_mul(g, weight[y]), g)
    return total


def fisher_of(
    forward: Callable[[Images], Logits],
    parameters: Mapping[str, nn.Parameter],
    batches: Iterable[tuple[Images, Labels]],
    draws: Float[Tensor, " n"],
    answers: Answers,
    tell: Callable[[str, float, float], None] = lambda *_: None,
) -> Weights:
    """F_j = E (∂ log p(y|x) / ∂θ_j)² over images in batches; ``labels`` count within the logits of ``forward``.

    ``draws``, one number from [0, 1) per image, choose the answers that are sampled.
    """
    total = [torch.zeros_like(p, requires_grad=False) for p in parameters.values()]
    done = count()

    def heard(image: Images) -> Logits:
        tell("importance", next(done), len(draws))
        return forward(image)

    first = 0
    for images, labels in batches:
        with torch.no_grad():
            weights = answer_weights(forward(images), labels, draws[first : first + len(labels)], answers)
        torch._foreach_add_(total, squared_gradients(heard, list(parameters.values()), images, weights))
        first += len(labels)
    torch._foreach_div_(total, len(draws))
    return dict(zip(parameters, total, strict=True))

"""What a coalition earns: a score of the network's logits, larger being better."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from snv.errors import UserError, unknown
from snv.shapes import Indices, Labels, Logits

Terms: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""(logits, labels) → one number per example, or one for all of them."""


def negative_loss(logits: Logits, labels: Labels) -> Float[Tensor, " b"]:
    """−cross-entropy of each example."""
    return -F.cross_entropy(logits, labels, reduction="none")


def hit(logits: Logits, labels: Labels) -> Float[Tensor, " b"]:
    """1 where the largest logit is the label's."""
    return (logits.argmax(1) == labels).to(logits.dtype)


def probability(logits: Logits, labels: Labels) -> Float[Tensor, " b"]:
    """Softmax probability of the true class: accuracy made smooth."""
    return logits.softmax(1).gather(1, labels[:, None])[:, 0]


PAYOFFS: dict[str, Terms] = {
    "loss": negative_loss,
    "accuracy": hit,
    "probability": probability,
    "disparity": hit,  # −(best − worst group accuracy)
}


@dataclass(frozen=True, eq=False)
class Payoff:
    """V from logits: the mean of ``terms`` over examples, or minus their largest difference between ``groups``."""

    name: str
    terms: Terms
    groups: Indices | None = None
    scalar: bool = False  # terms gives one number for all examples

    @property
    def samples_examples(self) -> bool:
        """Whether V on all examples is the mean of V on minibatches."""
        return self.groups is None and not self.scalar

    @property
    def smooth(self) -> Payoff:
        """The payoff whose gradient stands in for this one's: probability for accuracy."""
        return replace(self, terms=probability) if self.terms is hit else self

    def __call__(self, logits: Float[Tensor, "p b k"], labels: Labels, rows: Indices) -> Float[Tensor, " p"]:
        """V of p coalitions on the examples ``rows``, whose labels are ``labels``."""
        return self.total(self.parts(logits, labels), labels, rows)

    def parts(self, logits: Float[Tensor, "p b k"], labels: Labels) -> Float[Tensor, "p b *k"]:
        """All that V needs of some examples: one number each, or their logits if terms looks at all at once."""
        logits = logits.double()
        if self.scalar:
            return logits
        return self.terms(logits.flatten(0, 1), labels.repeat(len(logits))).view(len(logits), -1)

    def total(self, parts: Float[Tensor, "p b *k"], labels: Labels, rows: Indices) -> Float[Tensor, " p"]:
        """V from the parts of all examples."""
        if self.scalar:
            return torch.stack([self.terms(part, labels) for part in parts])
        if self.groups is None:
            return parts.mean(1)
        groups = self.groups[rows]
        scores = torch.stack([parts[:, groups == group].mean(1) for group in torch.unique(groups)])
        return -(scores.amax(0) - scores.amin(0))


def make_payoff(payoff: str | Terms | Payoff, example: Logits, labels: Labels, groups: Tensor | None = None) -> Payoff:
    """The payoff of that name, or of a callable, whose kind shows in its answer for ``example``."""
    if isinstance(payoff, Payoff):
        return payoff
    if callable(payoff):
        return Payoff(getattr(payoff, "__name__", "payoff"), payoff, scalar=_is_scalar(payoff, example, labels))
    if payoff not in PAYOFFS:
        raise unknown("payoff", payoff, PAYOFFS)
    if payoff == "disparity" and (groups is None or len(torch.unique(groups)) < 2):
        raise UserError(
            "disparity compares groups of examples, so it needs at least two; pass groups=, one per example."
        )
    return Payoff(payoff, PAYOFFS[payoff], groups if payoff == "disparity" else None)


def _is_scalar(payoff: Terms, example: Logits, labels: Labels) -> bool:
    pair = torch.arange(2) % len(example)
    answer = payoff(example[pair].double(), labels[pair])
    if not isinstance(answer, Tensor) or tuple(answer.shape) not in {(), (2,)}:
        shape = tuple(answer.shape) if isinstance(answer, Tensor) else type(answer).__name__
        raise UserError(
            f"A payoff returns a tensor with one number per example or a single one; for 2 examples it gave {shape}. "
            "Return e.g. -F.cross_entropy(logits, labels, reduction='none')."
        )
    return answer.ndim == 0

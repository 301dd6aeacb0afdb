"""How right the answers of a network are, among the classes its logits speak of."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from snv.shapes import Labels, Logits


def cross_entropies(logits: Logits, labels: Labels, scope: range | None, smoothing: float = 0.0) -> Tensor:
    """Of each image, within ``scope``: the classes of the logits, or None if they are all from 0 on."""
    answers = labels - first_class(scope)
    return F.cross_entropy(logits.float(), answers, reduction="none", label_smoothing=smoothing)


def n_right(logits: Logits, labels: Labels, scope: range | None) -> Tensor:
    """How many images are answered right."""
    return (logits.argmax(1) + first_class(scope) == labels).sum()


def first_class(scope: range | None) -> int:
    return 0 if scope is None else scope.start

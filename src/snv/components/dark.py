"""Losses on samples that were stored with the logits they had at the time."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from snv.shapes import Labels, Logits

Columns = Bool[Tensor, "b k"]


def stored_columns(labels: Labels, blocks: Sequence[range], own_head: bool) -> Columns:
    """The logits an image was stored with: of its own head, or of all classes up to its task."""
    starts, stops = torch.tensor([[b.start, b.stop] for b in blocks], device=labels.device).T.contiguous()
    task = torch.bucketize(labels, stops, right=True)[:, None]  # (b, 1)
    column = torch.arange(blocks[-1].stop, device=labels.device)
    first = starts[task] if own_head else 0
    valid: Columns = (column >= first) & (column < stops[task])  # (b, k)
    return valid


def logit_loss(logits: Logits, stored: Float[Tensor, "b k1"], valid: Columns) -> Tensor:
    """Mean of (z − z')² over the entries that were stored; classes that came later are left alone."""
    padded = F.pad(stored, (0, logits.shape[1] - stored.shape[1]))
    return torch.where(valid, logits - padded, 0.0).square().sum() / valid.sum()


def label_loss(logits: Logits, labels: Labels, scope: Columns | None) -> Tensor:
    """Cross-entropy within ``scope``, or among all classes."""
    inside = logits if scope is None else logits.masked_fill(~scope, -torch.inf)
    return F.cross_entropy(inside, labels)

"""Samples that were stored with the logits they had at the time: drawn, passed through the network, compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from snv.components.replay import Reservoir
from snv.networks import Network
from snv.shapes import Images, Labels, Logits, Pixels

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


# ---- two draws at every step


@dataclass(frozen=True)
class TwoDraws:
    """Old samples drawn twice: x' with their logits z', and x'' with their labels y''."""

    dark: dict[str, Tensor]
    plain: dict[str, Tensor]

    def __len__(self) -> int:
        return len(self.dark.get("labels", ()))

    def images(self, ready: Callable[[Pixels], Images]) -> Sequence[Tensor]:
        """x' and x'', made ready together; nothing if nothing was drawn."""
        return ready(torch.cat([self.dark["pixels"], self.plain["pixels"]])).split(len(self)) if len(self) else ()

    def losses(self, logits: Sequence[Tensor], blocks: Sequence[range], own_head: bool) -> tuple[Tensor, Tensor]:
        """MSE(z(x'), z') and CE(z(x''), y'') of the logits of both; 0 if nothing was drawn."""
        if not len(self):
            return torch.zeros(()), torch.zeros(())
        (z_dark, z_plain), device = logits, logits[0].device
        y_dark, y_plain = self.dark["labels"].to(device), self.plain["labels"].to(device)
        valid = stored_columns(y_dark, blocks, own_head)
        scope = stored_columns(y_plain, blocks, own_head=True) if own_head else None
        return logit_loss(z_dark, self.dark["logits"].to(device), valid), label_loss(z_plain, y_plain, scope)


def two_draws(reservoir: Reservoir, n: int, rng: Callable[[str], torch.Generator]) -> TwoDraws:
    """``n`` samples each, or all there are; ``rng`` gives a generator for a purpose."""
    return TwoDraws(*(reservoir.draw(n, rng(f"{what} replay")) for what in ("logit", "label")))


def passed(network: Network, batches: Sequence[Tensor], together: bool, own_head: bool) -> list[Tensor]:
    """Logits of new images, with ``own_head`` only of the newest head, and of others: in a pass each, or all in one."""
    new, *old = batches
    if not (old and together):
        newest = len(network.heads) - 1 if own_head else None
        return [network(new, newest).float(), *(network(images).float() for images in old)]
    logits, *others = network(torch.cat(list(batches))).float().split([len(images) for images in batches])
    return [logits[:, -network.head_sizes[-1] :] if own_head else logits, *others]


def in_columns(logits: Float[Tensor, "b last"], n: int) -> Logits:
    """The logits of the last of ``n`` classes at their places, zeros before them."""
    return F.pad(logits, (n - logits.shape[1], 0))

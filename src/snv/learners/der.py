"""DER++, dark experience replay (Buzzega et al., 2020): old samples with the logits they once had."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool
from torch import Tensor

from snv.components import Reservoir, buffer_size, check_buffer
from snv.errors import UserError
from snv.files import State
from snv.learners.base import Learner, Setting
from snv.learners.card import Card, Scenario
from snv.shapes import Images, Labels, Logits, Pixels
from snv.training import Batch, descend


@dataclass(frozen=True)
class DERConfig:
    """With both weights at 0 this is SGD, bit for bit."""

    logit_weight: float = 0.2  # α, the paper's for all data sets
    label_weight: float = 0.5  # β, the paper's for CIFAR-100; 1.0 for Tiny-ImageNet and ImageNet-1k
    buffer: int | None = None  # K; None: the paper's, 2,000 in CIL and 200 in TIL (ImageNet-1k in CIL: set 20000)
    replay: int | None = None  # samples of each of the two draws; None: a batch, as the original
    passes: Literal["separate", "joint"] = "separate"  # new images and either draw each through BatchNorm by itself

    def __post_init__(self) -> None:
        for name in ("logit_weight", "label_weight"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UserError(
                    f"learner.{name} weighs a term of the loss, so it is not negative; got {getattr(self, name)}."
                )
        check_buffer(self.buffer)
        if self.replay is not None and self.replay < 1:
            raise UserError(f"learner.replay, the samples of one draw, is at least 1; got {self.replay}. Try 64.")
        for name in ("buffer", "replay"):
            if self.passes == "separate" and getattr(self, name) == 1:
                raise UserError(
                    f"learner.{name} is at least 2 if each draw passes by itself (BatchNorm needs two images); got 1. "
                    "Try learner.passes=joint."
                )


Columns = Bool[Tensor, "b k"]


def stored_columns(labels: Labels, blocks: list[range], scenario: Scenario) -> Columns:
    """The logits an image was stored with: of its own head (TIL), or of all classes up to its task (CIL)."""
    starts, stops = torch.tensor([[b.start, b.stop] for b in blocks], device=labels.device).T.contiguous()
    task = torch.bucketize(labels, stops, right=True)[:, None]  # (b, 1)
    column = torch.arange(blocks[-1].stop, device=labels.device)
    first = starts[task] if scenario == "til" else 0
    valid: Columns = (column >= first) & (column < stops[task])  # (b, k)
    return valid


def logit_loss(logits: Logits, stored: Logits, valid: Columns) -> Tensor:
    """Mean of (z − z')² over the entries that were stored; classes that came later are left alone."""
    return torch.where(valid, logits - stored, 0.0).square().sum() / valid.sum()


def label_loss(logits: Logits, labels: Labels, scope: Columns | None) -> Tensor:
    """Cross-entropy within ``scope``, or among all classes."""
    inside = logits if scope is None else logits.masked_fill(~scope, -torch.inf)
    return F.cross_entropy(inside, labels)


class DER(Learner):
    """L = CE(z(x), y) + α·MSE(z(x'), z') + β·CE(z(x''), y''), with x' and x'' two draws from a reservoir."""

    card = Card(
        title="DER++ (dark experience replay)",
        paper="Buzzega et al., 2020",
        page="der",
        memory="images with labels and logits: 2,000 in CIL, 200 in TIL",
        stores_images=True,
    )
    Config: ClassVar[type] = DERConfig

    def __init__(self, setting: Setting, config: Any = None) -> None:
        super().__init__(setting, config)
        self.buffer = Reservoir(buffer_size(self.config.buffer, setting.scenario))

    def step(self, batch: Batch, optimizer: torch.optim.Optimizer) -> Tensor:
        """One update; then the batch is offered to the reservoir with the logits from before it."""
        with self.setting.autocast():
            loss, logits = self.loss_and_logits(batch)
        told = descend(loss, optimizer, batch.stage.settings.clip_norm)
        kept = F.pad(logits.detach().float(), (self._offset(), 0))  # at their global columns
        self.buffer.offer(batch.rng("reservoir"), pixels=batch.pixels, labels=batch.labels, logits=kept)
        return told

    def loss(self, batch: Batch) -> Tensor:
        return self.loss_and_logits(batch)[0]

    def loss_and_logits(self, batch: Batch) -> tuple[Tensor, Logits]:
        """The loss, and the logits of the batch itself."""
        n = self.n_drawn(batch)
        if n == 0:
            logits = self.task_logits(batch.images)
            return self.training_loss(logits, batch.labels), logits
        dark, known = (self.buffer.draw(n, batch.rng(f"{what} replay")) for what in ("logit", "label"))
        old = self._augmented(torch.cat([dark["pixels"], known["pixels"]]), batch)
        new, z_dark, z_known = self.passed(batch.images, *old.split(n))
        terms = self._logit_term(z_dark, dark), self._label_term(z_known, known["labels"])
        weights = self.config.logit_weight, self.config.label_weight
        loss = self.training_loss(new, batch.labels) + weights[0] * terms[0] + weights[1] * terms[1]
        return loss, new

    def n_drawn(self, batch: Batch) -> int:
        """The stored images of each draw: none if neither term has a weight, never more than there are."""
        if self.config.logit_weight == self.config.label_weight == 0:
            return 0
        return min(self.config.replay or batch.stage.settings.batch_size, len(self.buffer))

    def passed(self, *batches: Tensor) -> tuple[Tensor, ...]:  # images (b c h w) and logits, each of its own length b
        """Logits of new images and of both draws, one pass after the other as in the original, or all in one."""
        if self.config.passes == "separate":
            new, *old = batches
            return self.task_logits(new), *(self.network(images).float() for images in old)
        logits: Logits = self.network(torch.cat(batches)).float()
        new, *rest = logits.split([len(images) for images in batches])
        return new[:, self._offset() :], *rest

    def _logit_term(self, logits: Logits, dark: dict[str, Tensor]) -> Tensor:
        labels, stored = (dark[name].to(logits.device) for name in ("labels", "logits"))
        padded = F.pad(stored, (0, logits.shape[1] - stored.shape[1]))
        return logit_loss(logits, padded, stored_columns(labels, self.blocks, self.setting.scenario))

    def _label_term(self, logits: Logits, labels: Labels) -> Tensor:
        labels, til = labels.to(logits.device), self.setting.scenario == "til"
        return label_loss(logits, labels, stored_columns(labels, self.blocks, "til") if til else None)

    def _augmented(self, pixels: Pixels, batch: Batch) -> Images:
        settings = batch.stage.settings
        rng = batch.rng("augment replay") if settings.augment else None
        return self.setting.preprocess(pixels, self.setting.device, rng, settings.channels_last)

    def work(self, batch: Batch) -> str:
        """A draw is as large for few new images as for many, so the cost per new image depends on both numbers."""
        n = self.n_drawn(batch)
        return f"{len(batch.labels)} new and 2 x {n} old" if n else ""

    def bytes_kept(self, n_classes: int) -> int:
        """Pixels, a label of 8 bytes and logits of 4."""
        return self.buffer.capacity * (math.prod(self.setting.preprocess.shape) + 8 + 4 * n_classes)

    def state_dict(self) -> State:
        return super().state_dict() | {"buffer": self.buffer.state_dict()}

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict(state)
        self.buffer.load_state_dict(state["buffer"])

"""DER++, dark experience replay (Buzzega et al., 2020): old samples with the logits they once had."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from snv.components import Reservoir, buffer_size, label_loss, logit_loss, stored_columns
from snv.errors import UserError
from snv.files import State
from snv.learners.base import Learner
from snv.learners.card import Card
from snv.learners.checks import check_range
from snv.shapes import Images, Logits, Pixels
from snv.training import Batch, Setting, descend, first_class


@dataclass(frozen=True)
class DERConfig:
    """With both weights at 0 this is SGD, bit for bit."""

    logit_weight: float = 0.2  # α, the paper's for all data sets
    label_weight: float = 0.5  # β, the paper's for CIFAR-100; 1.0 for Tiny-ImageNet and ImageNet-1k
    buffer: int | None = None  # K; None: the paper's, 2,000 in CIL and 200 in TIL (ImageNet-1k in CIL: set 20000)
    replay: int | None = None  # samples of each of the two draws; None: a batch, as the original
    passes: Literal["separate", "joint"] = "separate"  # new images and either draw each through BatchNorm by itself

    def __post_init__(self) -> None:
        check_range(self, "logit_weight", 0, advice="Try 0.2.")
        check_range(self, "label_weight", 0, advice="Try 0.5.")
        check_range(self, "buffer", 1, advice="Try 2000.")
        check_range(self, "replay", 1, advice="Try 64.")
        for name in ("buffer", "replay"):
            if self.passes == "separate" and getattr(self, name) == 1:
                raise UserError(
                    f"learner.{name} is at least 2 if each draw passes by itself (BatchNorm needs two images); got 1. "
                    "Try learner.passes=joint."
                )


class DER(Learner[DERConfig]):
    """L = CE(z(x), y) + α·MSE(z(x'), z') + β·CE(z(x''), y''), with x' and x'' two draws from a reservoir."""

    card = Card(
        title="DER++ (dark experience replay)",
        paper="Buzzega et al., 2020",
        page="der",
        memory="images with labels and logits: 2,000 in CIL, 200 in TIL",
        stores_images=True,
    )
    Config: ClassVar[type] = DERConfig

    def __init__(self, setting: Setting, config: DERConfig | None = None) -> None:
        super().__init__(setting, config)
        self.buffer = Reservoir(buffer_size(self.config.buffer, setting.scenario))

    def step(self, batch: Batch, optimizer: torch.optim.Optimizer) -> Tensor:
        """One update; then the batch is offered to the reservoir with the logits from before it."""
        n = len(batch.labels)
        kind = f"replay {batch.task}, {n} new and 2 x {self.n_drawn(batch)} old"  # the cost depends on both numbers
        with self.reporter.counted(kind, n):
            with self.setting.autocast():
                loss, logits = self.loss_and_logits(batch)
            loss = descend(loss, optimizer, batch.stage.settings.clip_norm)
        columns = F.pad(logits.detach().float(), (first_class(self.scope()), 0))  # at their global places
        self.buffer.offer(batch.rng("reservoir"), pixels=batch.pixels, labels=batch.labels, logits=columns)
        return loss

    def loss(self, batch: Batch) -> Tensor:
        return self.loss_and_logits(batch)[0]

    def loss_and_logits(self, batch: Batch) -> tuple[Tensor, Logits]:
        """The loss, and the logits of the batch itself."""
        n, til, device = self.n_drawn(batch), self.setting.scenario == "til", self.setting.device
        if n == 0:
            logits = self.logits(batch.images, self.scope())
            return batch.cross_entropy(logits, self.scope()), logits
        dark, plain = (self.buffer.draw(n, batch.rng(f"{what} replay")) for what in ("logit", "label"))
        old = self.augmented(torch.cat([dark["pixels"], plain["pixels"]]), batch)
        new, z_dark, z_plain = self.passed(batch.images, *old.split(n))
        y_dark, y_plain = dark["labels"].to(device), plain["labels"].to(device)
        matched = logit_loss(z_dark, dark["logits"].to(device), stored_columns(y_dark, self.blocks, own_head=til))
        repeated = label_loss(z_plain, y_plain, stored_columns(y_plain, self.blocks, own_head=True) if til else None)
        weighted = self.config.logit_weight * matched, self.config.label_weight * repeated
        return batch.cross_entropy(new, self.scope()) + weighted[0] + weighted[1], new

    def n_drawn(self, batch: Batch) -> int:
        """The stored images of each draw: none if neither term has a weight, never more than there are."""
        if self.config.logit_weight == self.config.label_weight == 0:
            return 0
        return min(self.config.replay or batch.stage.settings.batch_size, len(self.buffer))

    def passed(self, *batches: Tensor) -> tuple[Tensor, ...]:  # images (b c h w) and logits, each of its own length b
        """Logits of new images and of both draws, one pass after the other as in the original, or all in one."""
        if self.config.passes == "separate":
            new, *old = batches
            return self.logits(new, self.scope()), *(self.network(images).float() for images in old)
        logits: Logits = self.network(torch.cat(batches)).float()
        new, *rest = logits.split([len(images) for images in batches])
        return new[:, first_class(self.scope()) :], *rest

    def augmented(self, pixels: Pixels, batch: Batch) -> Images:
        settings = batch.stage.settings
        rng = batch.rng("augment replay") if settings.augment else None
        return self.setting.preprocess(pixels, self.setting.device, rng, settings.channels_last)

    def bytes_kept(self, n_classes: int) -> int:
        """Pixels, a label of 8 bytes and logits of 4."""
        return self.buffer.capacity * (math.prod(self.setting.preprocess.shape) + 8 + 4 * n_classes)

    def state_dict(self) -> State:
        return super().state_dict() | {"buffer": self.buffer.state_dict()}

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict(state)
        self.buffer.load_state_dict(state["buffer"])

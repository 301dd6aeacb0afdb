"""DER++, dark experience replay (Buzzega et al., 2020): old samples with the logits they once had."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor, optim

from snv.components import Reservoir, buffer_size, in_columns, passed, two_draws
from snv.files import State
from snv.learners.base import Learner
from snv.learners.card import Card
from snv.learners.checks import check_least
from snv.learners.grids import RATES, paper_presets
from snv.training import Batch, Setting


@dataclass(frozen=True)
class DERConfig:
    """With both weights at 0 this is SGD, bit for bit."""

    logit_weight: float = 0.2  # α, the paper's for all data sets
    label_weight: float = 0.5  # β, the paper's for CIFAR-100; 1.0 for Tiny-ImageNet and ImageNet-1k
    buffer: int | None = None  # K; None: the paper's, 2,000 in CIL and 200 in TIL (ImageNet-1k in CIL: set 20000)
    replay: int | None = None  # samples of each of the two draws; None: a batch, as the original
    passes: Literal["separate", "joint"] = "separate"  # new images and either draw each through BatchNorm by itself

    def __post_init__(self) -> None:
        check_least(self, 0, "logit_weight", "label_weight")
        alone = self.passes == "separate"  # BatchNorm needs two images
        check_least(self, 2 if alone else 1, "buffer", "replay", advice="Try 64, or 1 with learner.passes=joint.")


class DER(Learner[DERConfig]):
    """L = CE(z(x), y) + α·MSE(z(x'), z') + β·CE(z(x''), y''), with x' and x'' two draws from a reservoir."""

    card = Card(
        title="DER++ (dark experience replay)",
        paper="Buzzega et al., 2020",
        page="der",
        memory="images with labels and logits: 2,000 in CIL, 200 in TIL",
        stores_images=True,
        space={
            "train.lr": RATES,
            "learner.logit_weight": (0.1, 0.2, 0.3, 0.5, 1),
            "learner.label_weight": (0.5, 1),
        },
        presets=paper_presets(
            1e-2,
            {"learner.logit_weight": 0.2, "learner.label_weight": 0.5},
            tiny={"learner.label_weight": 1},
            imagenet={"learner.label_weight": 1},
        ),
        added={"passes": "joint"},
    )
    Config: ClassVar[type] = DERConfig

    def __init__(self, setting: Setting, config: DERConfig | None = None) -> None:
        super().__init__(setting, config)
        self.buffer = Reservoir(buffer_size(self.config.buffer, setting.scenario))

    def step(self, batch: Batch, optimizer: optim.Optimizer) -> Tensor:
        """One update; then the batch is offered to the reservoir with the logits from before it."""
        n = len(batch.labels)
        with self.reporter.counted(f"replay {batch.task}, {n} new and 2 x {self.n_drawn(batch)} old", n):
            loss = super().step(batch, optimizer)
        self.buffer.offer(batch.rng("reservoir"), pixels=batch.pixels, labels=batch.labels, logits=self.answers)
        return loss

    def n_drawn(self, batch: Batch) -> int:
        """The stored images of each draw: none if neither term has a weight, never more than there are."""
        weighs = self.config.logit_weight > 0 or self.config.label_weight > 0
        return min(self.config.replay or batch.stage.settings.batch_size, len(self.buffer)) if weighs else 0

    def loss(self, batch: Batch) -> Tensor:
        til, draws = self.setting.scenario == "til", two_draws(self.buffer, self.n_drawn(batch), batch.rng)
        old = draws.images(lambda x: self.setting.augmented(x, batch.stage.settings, batch.rng("augment replay")))
        new, *replayed = passed(self.network, [batch.images, *old], self.config.passes == "joint", til)
        self.answers = in_columns(new.detach(), self.blocks[-1].stop)  # until the end of the step
        matched, repeated = draws.losses(replayed, self.blocks, til)
        loss = batch.cross_entropy(new, self.scope())
        return loss + self.config.logit_weight * matched + self.config.label_weight * repeated

    def bytes_kept(self, n_classes: int) -> int:
        return self.buffer.capacity * (self.setting.preprocess.n_bytes + 8 + 4 * n_classes)  # pixels, label, logits

    def state_dict(self) -> State:
        return super().state_dict() | {"buffer": self.buffer.state_dict()}

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict(state)
        self.buffer.load_state_dict(state["buffer"])

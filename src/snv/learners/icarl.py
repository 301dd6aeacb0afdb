"""iCaRL (Rebuffi et al., 2017): herded exemplars, sigmoid distillation, the nearest class mean as classifier."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from snv.components import Exemplars, Joined, buffer_size, restored_teacher, teacher_state
from snv.data import Split, Task
from snv.errors import UserError
from snv.files import State
from snv.learners.base import Learner
from snv.learners.card import Card
from snv.learners.checks import check_range
from snv.learners.grids import RATES, paper_presets
from snv.networks import Network, bytes_of, frozen_copy
from snv.shapes import Features, Images, Labels, Logits
from snv.training import Batch, Setting, Stage, first_class, n_right


@dataclass(frozen=True)
class ICaRLConfig:
    """Its lr is that of every other method (``train.lr``)."""

    buffer: int | None = None  # K; None: the paper's, 2,000 in CIL and 200 in TIL (ImageNet-1k in CIL: set 20000)
    weight_decay: float = 5e-5  # the paper's for all data sets; where train.weight_decay is set, that one counts
    mirror: bool | None = None  # whether class means count mirrored exemplars too (original); None: if training mirrors

    def __post_init__(self) -> None:
        check_range(self, "buffer", 1, advice="Try 2000.")
        if self.weight_decay < 0:
            raise UserError(f"learner.weight_decay is not negative; got {self.weight_decay}. Try 5e-5.")


OldLogits = Float[Tensor, "b old"]
Means = Float[Tensor, "k f"]  # one row per class


def targets(labels: Labels, n_classes: int, old_logits: OldLogits | None) -> Logits:
    """q: one-hot for new classes, what the previous model says for old ones, whatever the image shows."""
    q = F.one_hot(labels, n_classes).float()
    if old_logits is not None:
        q[:, : old_logits.shape[1]] = old_logits.float().sigmoid()
    return q


def class_means(features: Features, labels: Labels, n_classes: int) -> Means:
    """μ_c: the mean of each class's features, scaled to length 1."""
    totals = torch.zeros(n_classes, features.shape[1], device=features.device).index_add_(0, labels, features)
    return F.normalize(totals, dim=1)


def nearness(features: Features, means: Means) -> Logits:
    """h_c(x) = −‖φ(x)/‖φ(x)‖ − μ_c‖."""
    return -torch.cdist(F.normalize(features, dim=1), means, compute_mode="donot_use_mm_for_euclid_dist")


class ICaRL(Learner[ICaRLConfig]):
    """Trains on the new task and the exemplars together, the same way in TIL and CIL; answers by the nearest mean."""

    card = Card(
        title="iCaRL (incremental classifier and representation learning)",
        paper="Rebuffi et al., 2017",
        page="icarl",
        memory="exemplar images: 2,000 in CIL, 200 in TIL; a mean per class; the previous model while training",
        stores_images=True,
        one_network=False,  # heads learn the features; answers come from the means
        parallel=True,
        space={"train.lr": RATES, "learner.weight_decay": (0, 1e-5, 5e-5, 1e-4)},
        presets=paper_presets(1e-2, {"learner.weight_decay": 5e-5}),
        adds_up=True,
    )
    Config: ClassVar[type] = ICaRLConfig

    def __init__(self, setting: Setting, config: ICaRLConfig | None = None) -> None:
        super().__init__(setting, config)
        self.memory_size = buffer_size(self.config.buffer, setting.scenario)
        self.exemplars = Exemplars()
        self.means: Means = torch.zeros(0, setting.network.body.n_features, device=setting.device)
        self.teacher: Network | None = None  # the previous model

    # ---- the course of a task

    def begin_task(self, task: Task) -> None:
        if self.blocks:
            self.teacher = frozen_copy(self.network, len(self.blocks))
        super().begin_task(task)

    def stage(self, task: Task, index: int) -> Stage | None:
        if index > 0:
            return None
        train = self.setting.train
        decayed = dataclasses.replace(train, weight_decay=train.weight_decay or self.config.weight_decay)
        joined = Joined(task.train, self.exemplars.split()) if len(self.exemplars) else task.train
        return Stage("train", decayed, train=joined)

    def end_task(self, task: Task) -> None:
        """Choose exemplars, and place all means anew with the features as they are now."""
        self.network.eval()
        with torch.no_grad(), self.reporter.phase("memory"):
            self.exemplars.choose(task.train, task.block, self._features(task.train, "exemplars"), self.memory_size)
            self.means = self._class_means()
        self.teacher = None

    def _class_means(self) -> Means:
        exemplars = self.exemplars.split()
        features = self._features(exemplars, "class means")
        trained_mirrored = self.setting.train.augment and self.setting.preprocess.augmentation != "none"
        if trained_mirrored if self.config.mirror is None else self.config.mirror:
            features = features + self._features(exemplars, "class means, mirrored", mirrored=True)
        return class_means(features, exemplars.labels.to(features.device), len(self.exemplars.of_class))

    def _features(self, split: Split, purpose: str, mirrored: bool = False) -> Features:
        """Features of length 1, of images as they are."""
        batches = self.setting.prepared(split, tell=partial(self.reporter.tell, purpose))
        flipped = (images.flip(3) if mirrored else images for images, _ in batches)
        return torch.cat([F.normalize(self.network.features(images), dim=1) for images in flipped])

    # ---- one step

    def loss(self, batch: Batch) -> Tensor:
        """Of all heads, in TIL too."""
        return self._sigmoid_loss(self.network(batch.images), batch.images, batch.labels)

    def _sigmoid_loss(self, logits: Logits, images: Images, labels: Labels) -> Tensor:
        """−(1/(B·classes)) Σ [q log σ(z) + (1 − q) log(1 − σ(z))] over all classes seen."""
        with torch.no_grad():
            old_logits = self.teacher(images) if self.teacher is not None else None
        return F.binary_cross_entropy_with_logits(logits.float(), targets(labels, logits.shape[1], old_logits))

    def validation(self, images: Images, labels: Labels, stage: Stage) -> tuple[Tensor, Tensor]:
        """The training loss on new images only; answers are those of the heads, since means come after training."""
        logits, scope = self.network(images), self.scope()
        return self._sigmoid_loss(logits, images, labels), n_right(logits[:, first_class(scope) :], labels, scope)

    # ---- prediction

    def logits(self, images: Images, block: range | None) -> Logits:
        """Nearness to the mean of every class learned, or in TIL of those of ``block`` only (Eqs. 13 and 14)."""
        if block is not None and block.stop > len(self.means):
            return super().logits(images, block)
        scores = nearness(self.network.features(images), self.means)
        return scores if block is None else scores[:, block.start : block.stop]

    # ---- what is kept

    def bytes_kept(self, n_classes: int) -> int:
        images = self.memory_size * self.setting.preprocess.n_bytes
        return images + n_classes * 4 * self.setting.network.body.n_features + bytes_of(self.network)

    def state_dict(self) -> State:
        return super().state_dict() | {
            "exemplars": self.exemplars.state_dict(),
            "means": self.means,
            "teacher": teacher_state(self.teacher),
        }

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict(state)
        self.exemplars.load_state_dict(state["exemplars"])
        self.means = state["means"].to(self.setting.device)
        self.teacher = restored_teacher(state["teacher"], self.network)

"""Learning without Forgetting (Li and Hoiem, 2016)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from snv.components import distillation, restored_teacher, teacher_state
from snv.data import Task
from snv.errors import UserError
from snv.files import State
from snv.learners.base import Learner
from snv.learners.card import Card
from snv.learners.checks import check_range
from snv.learners.grids import RATES, paper_presets
from snv.networks import Network, bytes_of, frozen_copy
from snv.shapes import Images, Logits
from snv.training import Batch, Setting, Stage


@dataclass(frozen=True)
class LwFConfig:
    """How strongly old answers are kept; the paper's weight decay of 5e-5 is ``train.weight_decay``."""

    strength: float = 0.5  # α: the paper's
    temperature: float = 2.0  # τ: the paper's, and the original's
    ce_scope: Literal["new", "seen"] = "new"  # CIL: "seen" also pushes old logits down, against the distillation
    head_epochs: int = 0  # of the new head alone before all is trained; the original warms up, the paper does not

    def __post_init__(self) -> None:
        check_range(self, "strength", 0, advice="Try 0.5, or 0 for plain training.")
        if not 0 < self.temperature < float("inf"):
            raise UserError(f"learner.temperature is a positive number; got {self.temperature}. Try 2.")
        check_range(self, "head_epochs", 0)


class LwF(Learner[LwFConfig]):
    """CE on the new classes + α KD_τ on the old: the network as it was before the task is the teacher.

    In CIL old classes share one softmax; in TIL each old head has its own, and the terms add up.
    """

    card = Card(
        title="LwF (learning without forgetting)",
        paper="Li and Hoiem, 2016",
        page="lwf",
        memory="one copy of the network",
        parallel=True,
        space={
            "train.lr": RATES,
            "learner.strength": (0.3, 0.5, 1, 3),
            "learner.temperature": (2, 4),
            "train.weight_decay": (1e-5, 5e-5),
        },
        idle_first=("learner.strength", "learner.temperature"),
        presets=paper_presets(1e-2, {"train.weight_decay": 5e-5, "learner.strength": 0.5, "learner.temperature": 2}),
        adds_up=True,
    )
    Config: ClassVar[type] = LwFConfig

    def __init__(self, setting: Setting, config: LwFConfig | None = None) -> None:
        super().__init__(setting, config)
        self.teacher: Network | None = None

    # ---- the course of a task

    def stage(self, task: Task, index: int) -> Stage | None:
        """Training, after a warm-up of the new head if one is asked for and there are old heads."""
        stages = [Stage("train", self.setting.train)]
        if self.config.head_epochs > 0 and self.teacher is not None:
            settings = dataclasses.replace(self.setting.train, epochs=self.config.head_epochs)
            stages.insert(0, Stage("head", settings))
        return stages[index] if index < len(stages) else None

    def parameters(self, stage: Stage) -> Iterable[nn.Parameter]:
        return self.network.heads[-1].parameters() if stage.name == "head" else super().parameters(stage)

    def set_training(self, training: bool, stage: Stage) -> None:
        super().set_training(training and stage.name != "head", stage)

    def end_task(self, task: Task) -> None:
        """The network as it is now is the next task's teacher."""
        self.teacher = frozen_copy(self.network)

    # ---- one step

    def loss(self, batch: Batch) -> Tensor:
        if batch.stage.name == "head":
            return batch.cross_entropy(self.logits_of_still_body(batch.images), self.scope())
        if self.teacher is None or self.config.strength == 0:
            return super().loss(batch)
        with torch.no_grad():
            old = self.teacher(batch.images)
        logits: Logits = self.network(batch.images)
        n_old = old.shape[1]
        own = logits if self.scope() is None else logits[:, n_old:]
        loss = batch.cross_entropy(own, self.scope())
        return loss + self.config.strength * self.forgotten(logits[:, :n_old], old)

    def forgotten(self, logits: Logits, old: Logits) -> Tensor:
        """KD over all old classes (CIL), or its sum over the old heads (TIL)."""
        sizes = [len(b) for b in self.blocks[:-1]] if self.setting.scenario == "til" else [old.shape[1]]
        pairs = zip(logits.split(sizes, dim=1), old.split(sizes, dim=1), strict=True)
        return torch.stack([distillation(b, a, self.config.temperature) for b, a in pairs]).sum()

    def scope(self) -> range | None:
        return self.blocks[-1] if self.config.ce_scope == "new" else super().scope()

    def logits_of_still_body(self, images: Images) -> Logits:
        """What `logits` gives of the classes in `scope`, without gradients in the body."""
        with torch.no_grad():
            features = self.network.features(images)
        return self.network.classify(features, None if self.scope() is None else len(self.blocks) - 1)

    # ---- what is kept

    def bytes_kept(self, n_classes: int) -> int:
        return bytes_of(self.network)

    def state_dict(self) -> State:
        return super().state_dict() | {"teacher": teacher_state(self.teacher)}

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict(state)
        self.teacher = restored_teacher(state["teacher"], self.network)

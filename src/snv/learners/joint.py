"""Joint training: the upper bound. It breaks the rules of continual learning on purpose and says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from snv.data import Task
from snv.files import cloned
from snv.learners.base import Learner
from snv.learners.card import Card
from snv.learners.grids import RATES
from snv.shapes import Images, Labels, Logits
from snv.training import Batch, Setting, Stage


def losses_by_own_head(logits: Logits, labels: Labels, blocks: list[range], smoothing: float = 0.0) -> Tensor:
    """CE_block(task(y_i))(z(x_i), y_i): each image is scored only within the head of its own task."""
    losses = torch.zeros(len(labels), device=labels.device)
    for block in blocks:
        mine = (labels >= block.start) & (labels < block.stop)
        inside = logits[mine, block.start : block.stop].float()
        own = F.cross_entropy(inside, labels[mine] - block.start, reduction="none", label_smoothing=smoothing)
        losses = losses.index_put((mine,), own)
    return losses


def right_in_own_head(logits: Logits, labels: Labels, blocks: list[range]) -> Tensor:
    """How many images are answered right within the head of their own task."""
    answers = torch.stack([logits[:, b.start : b.stop].argmax(1) + b.start for b in blocks])  # (tasks, b)
    return (answers == labels).sum()


@dataclass(frozen=True)
class JointConfig:
    """``when = "last"`` trains only once all tasks are there: ACC is the same, earlier rows stay empty."""

    when: Literal["every task", "last"] = "every task"


class Joint(Learner[JointConfig]):
    """At every step start again from the initial weights and train on all tasks so far together."""

    card = Card(
        title="Joint (all data at once, upper bound)",
        paper="the paper's upper bound",
        page="bounds",
        memory="all training and validation images of all tasks",
        stores_images=True,
        sees="all tasks",
        parallel=True,
        space={"train.lr": RATES},
        adds_up=True,
    )
    Config: ClassVar[type] = JointConfig

    def __init__(self, setting: Setting, config: JointConfig | None = None) -> None:
        super().__init__(setting, config)
        self.initial = cloned(setting.network.state_dict())

    def begin_task(self, task: Task) -> None:
        """Back to the start; ``task`` holds the union of all tasks so far, and it may wait for the last of them."""
        n_before = self.blocks[-1].stop if self.blocks else 0
        self.blocks.append(range(n_before, task.block.stop))
        self.ready = self.config.when == "every task" or len(self.blocks) == self.setting.n_tasks
        self._restart()

    def stage(self, task: Task, index: int) -> Stage | None:
        return super().stage(task, index) if self.ready else None

    def _restart(self) -> None:
        """Initial weights of the body and of every head, the same at every step (warm starts would be replay)."""
        self.network.remove_heads()
        self.network.load_state_dict(self.initial)
        for block in self.blocks:
            self.network.add_head(len(block))

    def loss(self, batch: Batch) -> Tensor:
        """In TIL of all heads too: images of all tasks are mixed."""
        if self.setting.scenario == "cil":
            return super().loss(batch)
        logits, smoothing = self.network(batch.images), batch.stage.settings.smoothing
        return losses_by_own_head(logits, batch.labels, self.blocks, smoothing).mean()

    def validation(self, images: Images, labels: Labels, stage: Stage) -> tuple[Tensor, Tensor]:
        if self.setting.scenario == "cil":
            return super().validation(images, labels, stage)
        logits = self.network(images)
        return losses_by_own_head(logits, labels, self.blocks).mean(), right_in_own_head(logits, labels, self.blocks)

"""Joint training: the upper bound. It breaks the rules of continual learning on purpose and says so."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from snv.data import Task
from snv.files import cloned
from snv.learners.base import Learner, Setting
from snv.learners.card import Card
from snv.shapes import Images, Labels, Logits
from snv.training import Stage


def losses_by_own_head(logits: Logits, labels: Labels, blocks: list[range], smoothing: float = 0.0) -> Tensor:
    """CE_block(task(y_i))(z(x_i), y_i): each image is scored only within the head of its own task."""
    losses = torch.zeros(len(labels), device=labels.device)
    for block in blocks:
        mine = (labels >= block.start) & (labels < block.stop)
        inside = logits[mine, block.start : block.stop].float()
        own = F.cross_entropy(inside, labels[mine] - block.start, reduction="none", label_smoothing=smoothing)
        losses = losses.index_put((mine,), own)
    return losses


@dataclass(frozen=True)
class JointConfig:
    """``when = "last"`` trains only once all tasks are there: ACC is the same, earlier rows stay empty."""

    when: Literal["every task", "last"] = "every task"


class Joint(Learner):
    """At every step start again from the initial weights and train on all tasks so far together."""

    card = Card(
        title="Joint (all data at once, upper bound)",
        paper="the paper's upper bound",
        page="bounds",
        memory="all training and validation images of all tasks",
        stores_images=True,
        sees="all tasks",
    )
    Config: ClassVar[type] = JointConfig

    def __init__(self, setting: Setting, config: object = None) -> None:
        super().__init__(setting, config)
        self.initial = cloned(setting.network.state_dict())
        self.n_images = 0  # of all tasks so far

    def begin_task(self, task: Task) -> None:
        """Back to the start; ``task`` holds the union of all tasks so far."""
        n_before = self.blocks[-1].stop if self.blocks else 0
        self.blocks.append(range(n_before, task.block.stop))
        self._restart()

    def end_task(self, task: Task) -> None:
        self.n_images = len(task.train) + len(task.val)

    @property
    def has_learned(self) -> bool:
        return self.config.when == "every task" or len(self.blocks) == self.setting.n_tasks

    def stage(self, task: Task, index: int) -> Stage | None:
        return super().stage(task, index) if self.has_learned else None

    def _restart(self) -> None:
        """Initial weights of the body and of every head, the same at every step (warm starts would be replay)."""
        self.network.remove_heads()
        self.network.load_state_dict(self.initial)
        for block in self.blocks:
            self.network.add_head(len(block))

    def task_logits(self, images: Images) -> Logits:
        """All heads, in TIL too: images of all tasks are mixed."""
        return self.logits(images, None)

    def task_losses(self, logits: Logits, labels: Labels, smoothing: float = 0.0) -> Tensor:
        if self.setting.scenario == "cil":
            return super().task_losses(logits, labels, smoothing)
        return losses_by_own_head(logits, labels, self.blocks, smoothing)

    def n_right(self, logits: Logits, labels: Labels) -> Tensor:
        if self.setting.scenario == "cil":
            return super().n_right(logits, labels)
        answers = torch.stack([logits[:, b.start : b.stop].argmax(1) + b.start for b in self.blocks])  # (tasks, b)
        return (answers == labels).sum()

    # ---- what is kept

    def bytes_beyond_network(self) -> int:
        """Of the images, which the stream keeps for it."""
        return self.n_images * math.prod(self.setting.preprocess.shape)

"""Streaming LDA in a fixed random space: a classifier that takes no gradient step, and what learning must beat.

One layer of random filters, whitened with patches of the first task, and one Gaussian per class with a covariance that
all share. Class statistics are sums, so tasks in another order, or all at once, give the same answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from snv.components import ClassSums, Discriminant, discriminant, joined
from snv.data import Task
from snv.errors import UserError
from snv.files import State
from snv.learners.base import Learner
from snv.learners.card import Card
from snv.learners.space import class_sums, fit_space
from snv.networks import Directions, PatchSpace, bytes_of
from snv.shapes import Images, Logits
from snv.training import Setting, Stage


@dataclass(frozen=True)
class SLDAConfig:
    filters: int | None = None  # random filters, 8 features each; None: 4 per pixel of the side, 128 from 32 pixels on
    directions: Directions = "random"  # of the filters: drawn, or what patches of the first task cluster around
    shrinkage: float = 0.05  # of the covariance: between 0.03 and 0.1 nothing depends on it

    def __post_init__(self) -> None:
        if self.filters is not None and self.filters < 1:
            raise UserError(f"learner.filters is at least 1; got {self.filters}. Try 128.")
        if not 0 < self.shrinkage <= 1:
            raise UserError(f"learner.shrinkage is a share, so it lies in (0, 1]; got {self.shrinkage}. Try 0.05.")


class SLDA(Learner[SLDAConfig]):
    """Scores φᵀA⁻¹μ_c − ½ μ_cᵀA⁻¹μ_c; A is pooled over all classes in CIL, and a task's own in TIL."""

    card = Card(
        title="SLDA (streaming LDA in a fixed random space)",
        paper="Hayes and Kanan, 2020, in the random patch features of Coates and Ng, 2012",
        page="slda",
        memory="8 numbers per filter and class; in CIL a covariance of all features, in TIL a linear head per task",
        parallel=True,
        one_network=False,
        added={"directions": "random"},
    )
    Config: ClassVar[type] = SLDAConfig

    def __init__(self, setting: Setting, config: SLDAConfig | None = None) -> None:
        super().__init__(setting, config)
        filters, directions = self.config.filters, self.config.directions
        self.space = PatchSpace(setting.preprocess.shape, setting.seed, filters, directions).to(setting.device)
        self.classes: ClassSums | None = None  # CIL
        self.heads: list[Discriminant] = []  # TIL
        self._joint: Discriminant | None = None  # of `classes` as they are

    def stage(self, task: Task, index: int) -> Stage | None:
        """Nothing is trained."""
        return None

    def end_task(self, task: Task) -> None:
        with self.reporter.phase("statistics"):
            if len(self.blocks) == 1:
                fit_space(self.space, task.train, self.setting, self.reporter)
            mine = class_sums(self.space, task, self.setting, self.reporter)
            with self.reporter.counted(f"discriminant {task.id}", len(task.block)):
                if self.setting.scenario == "til":
                    self.heads.append(discriminant(mine, self.config.shrinkage))
                else:
                    self.classes = mine if self.classes is None else joined([self.classes, mine])
                    self._joint = discriminant(self.classes, self.config.shrinkage)

    # ---- prediction

    def logits(self, images: Images, block: range | None) -> Logits:
        learned = self.blocks.index(block) if block in self.blocks else None
        if learned is not None and learned < len(self.heads):
            return self.heads[learned](self.space(images)).float()
        if self._joint is not None and (block is None or block.stop <= len(self._joint.bias)):
            scores = self._joint(self.space(images)).float()
            return scores if block is None else scores[:, block.start : block.stop]
        return super().logits(images, block)

    # ---- what is kept

    def bytes_kept(self, n_classes: int) -> int:
        f, filters = self.space.n_features, bytes_of(self.space)
        products = 0 if self.setting.scenario == "til" else 4 * f * (f + 1)
        return filters + 8 * n_classes * (f + 1) + products

    def state_dict(self) -> State:
        return super().state_dict() | {
            "space": dict(self.space.state_dict()),
            "classes": self.classes.state() if self.classes is not None else None,
            "task heads": [head.state() for head in self.heads],
        }

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict(state)
        device = self.setting.device
        self.space.load_state_dict(state["space"])
        self.classes = ClassSums.from_state(state["classes"], device) if state["classes"] is not None else None
        self.heads = [Discriminant.from_state(head, device) for head in state["task heads"]]
        self._joint = discriminant(self.classes, self.config.shrinkage) if self.classes is not None else None

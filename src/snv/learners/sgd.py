"""Plain fine-tuning: the lower bound. The name is historical; the optimiser is Adam like everywhere else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from snv.learners.base import Learner
from snv.learners.card import Card
from snv.learners.grids import RATES


@dataclass(frozen=True)
class SGDConfig:
    """``ce_scope = "new"`` restricts the CIL softmax to the current task: a different, stronger baseline."""

    ce_scope: Literal["seen", "new"] = "seen"


class SGD(Learner[SGDConfig]):
    """Train on each task in turn with no counter-measure: CE over seen classes (CIL) or the current head (TIL)."""

    card = Card(
        title="SGD (fine-tuning, lower bound)",
        paper="the paper's lower bound",
        page="bounds",
        parallel=True,
        forgets="no image of an old class is seen again, so every image is answered with a new class.",
        space={"train.lr": RATES},
        adds_up=True,
    )
    Config: ClassVar[type] = SGDConfig

    def scope(self) -> range | None:
        return self.blocks[-1] if self.config.ce_scope == "new" else super().scope()

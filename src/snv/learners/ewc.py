"""Elastic Weight Consolidation (Kirkpatrick et al., 2017) in its online form (Schwarz et al., 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn

from snv.components import HOLDS_WEIGHTS_ONLY, Answers, Weights, copied, fisher_of, held, restored, weighted_distance
from snv.data import Task
from snv.files import State
from snv.learners.base import Learner
from snv.learners.card import Card
from snv.learners.checks import check_range
from snv.learners.grids import RATES, paper_presets
from snv.networks import bytes_of
from snv.neurons import evaluating
from snv.seeding import generator
from snv.training import EVALUATION_BATCH, Batch, Setting, first_class


@dataclass(frozen=True)
class EWCConfig:
    """How strongly weights are held, and how their importance is estimated."""

    strength: float = 10.0  # λ: the paper's for CIFAR-100 and Tiny-ImageNet (25 for ImageNet-1k); often too weak in TIL
    decay: float = 1.0  # γ, the share of old importance that survives a task: the paper's
    images: int = 256  # of the training split, for the Fisher information: the authors' re-run
    answers: Answers = "sampled"  # drawn from the network's own probabilities, as in the definition of the Fisher

    def __post_init__(self) -> None:
        check_range(self, "strength", 0, advice="Try 10, or 0 for plain SGD.")
        check_range(self, "decay", 0, 1, advice="Try 1.")
        check_range(self, "images", 1, advice="Try 256.")


class EWC(Learner[EWCConfig]):
    """CE + (λ/2) Σ_j F_j (θ_j − θ*_j)², with F the diagonal of the Fisher information after the earlier tasks."""

    card = Card(
        title="EWC (elastic weight consolidation)",
        paper="Kirkpatrick et al., 2017; online form of Schwarz et al., 2018",
        page="ewc",
        memory="2 numbers per weight",
        parallel=True,
        forgets=HOLDS_WEIGHTS_ONLY,
        space={"train.lr": RATES, "learner.strength": (10, 25, 30, 90, 100), "learner.decay": (0.9, 0.95, 1)},
        idle_first=("learner.strength", "learner.decay"),
        presets=paper_presets(1e-2, {"learner.strength": 10, "learner.decay": 1}, imagenet={"learner.strength": 25}),
        adds_up=True,
    )
    Config: ClassVar[type] = EWCConfig

    def __init__(self, setting: Setting, config: EWCConfig | None = None) -> None:
        super().__init__(setting, config)
        self.fisher: Weights = {}  # F
        self.anchor: Weights = {}  # θ*

    def loss(self, batch: Batch) -> Tensor:
        loss = super().loss(batch)
        if not self.fisher or self.config.strength == 0:
            return loss
        return loss + self.config.strength / 2 * weighted_distance(self.held(), self.anchor, self.fisher)

    def held(self) -> dict[str, nn.Parameter]:
        return held(self.network, heads=self.setting.scenario == "cil")

    def end_task(self, task: Task) -> None:
        """F ← γF + F_new, θ* ← θ."""
        with evaluating(self.network), self.reporter.phase("importance"):
            new = self.new_fisher(task)
        for name, old in self.fisher.items():
            new[name] += self.config.decay * old
        self.fisher, self.anchor = new, copied(self.held())

    def new_fisher(self, task: Task, batch: int = EVALUATION_BATCH) -> Weights:
        """F_new: the mean of squared gradients over random training images, not augmented."""
        scope, rng = self.scope(), generator(self.setting.seed, "fisher", task.id)
        rows = torch.randperm(len(task.train), generator=rng)[: self.config.images]
        draws = torch.rand(len(rows), generator=rng)
        images = ((x, y - first_class(scope)) for x, y in self.setting.prepared(task.train, rows, batch))
        logits = partial(self.logits, block=scope)
        return fisher_of(logits, self.held(), images, draws, self.config.answers, self.reporter.tell)

    def bytes_kept(self, n_classes: int) -> int:
        return 2 * bytes_of(self.network)

    def state_dict(self) -> State:
        return super().state_dict() | {"fisher": dict(self.fisher), "anchor": dict(self.anchor)}

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict(state)
        self.fisher, self.anchor = (restored(state[key], self.network) for key in ("fisher", "anchor"))

"""No Forgetting Learning (Vahedifar and Zhang, 2025): the new head first, then the body, then everything."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from snv.components import distillation, restored_teacher, teacher_state, unmoved
from snv.data import Task
from snv.errors import UserError
from snv.files import State
from snv.learners.base import Learner
from snv.learners.card import Card
from snv.learners.checks import check_range
from snv.learners.grids import RATES
from snv.networks import Network, bytes_of, frozen_copy
from snv.shapes import Features, Images, Labels, Logits
from snv.training import Batch, Setting, Stage, cross_entropies, n_right


@dataclass(frozen=True)
class NFLConfig:
    """The SNV paper prints no settings of NFL; these are the original's."""

    balance: float = 0.3  # α: for CIFAR-100 and Tiny-ImageNet; 0.5 for ImageNet-1k
    temperature: float = 2.0  # p

    def __post_init__(self) -> None:
        check_range(self, "balance", 0, 1, advice=f"Try {type(self).balance}.")
        if not 0 < self.temperature < float("inf"):
            raise UserError(f"learner.temperature is a positive number; got {self.temperature}. Try 2.")


def two_anchors(old: Logits, before: Logits, between: Logits, balance: float, temperature: float) -> Tensor:
    """α KD_p(H → O_old) + (1 − α) KD_p(H' → O_old), one softmax over all old classes."""
    kept, renewed = (distillation(old, target, temperature) for target in (before, between))
    return balance * kept + (1 - balance) * renewed


class Terms(NamedTuple):
    """What the loss of a step is made of."""

    logits: Logits  # of which the cross-entropy is taken
    scope: range | None  # their classes
    rest: Tensor | float  # all that is added to it


class Anchor(NamedTuple):
    """What a network that stands still makes of a batch."""

    features: Features
    logits: Logits  # H or H'


Own = TypeVar("Own", bound=NFLConfig)
TRAINS_BODY = ("train", "body", "all")
"""Stages in which the body moves; in any other it stands still, norm statistics included."""


class Stepwise(Learner[Own]):
    """A later task in steps, the same in TIL and CIL; each has its own optimiser, and stops early by its own loss.

    1. `head`: the new head alone learns its classes, L = CE.
    2. `body`: body and old heads, the new head as it is, L = CE + KD_p(H → O_old).
    3. `all`: everything, L = CE + `anchored`.

    H are the old classes' logits of the network before the task. H' come from the body after the second step and the
    old heads from before the task.
    """

    def __init__(self, setting: Setting, config: Own | None = None) -> None:
        super().__init__(setting, config)
        self.before: Network | None = None  # gives H, while a later task is learned
        self.between: Network | None = None  # gives H', in its last step

    # ---- the course of a task

    def begin_task(self, task: Task) -> None:
        if self.blocks:
            self.before = frozen_copy(self.network)
        super().begin_task(task)

    def stages(self, task: Task) -> list[Stage]:
        names = ["train"] if self.before is None else ["head", "body", "all"]
        return [Stage(name, self.setting.train) for name in names]

    def stage(self, task: Task, index: int) -> Stage | None:
        return dict(enumerate(self.stages(task))).get(index)

    def end_stage(self, task: Task, stage: Stage) -> None:
        if stage.name == "body":
            assert self.before is not None
            self.between = frozen_copy(self.network)
            self.between.heads = self.before.heads  # those it has now would only repeat what the network says

    def end_task(self, task: Task) -> None:
        self.before = self.between = None

    # ---- one step

    def parameters(self, stage: Stage) -> Iterable[nn.Parameter]:
        *old, new = self.network.heads
        if stage.name == "head":
            return new.parameters()
        if stage.name == "body":
            return [p for module in (self.network.body, *old) for p in module.parameters()]
        return super().parameters(stage)

    def set_training(self, training: bool, stage: Stage) -> None:
        super().set_training(training and stage.name in TRAINS_BODY, stage)

    def loss(self, batch: Batch) -> Tensor:
        logits, scope, rest = self.terms(batch.images, batch.stage)
        return batch.cross_entropy(logits, scope) + rest

    def validation(self, images: Images, labels: Labels, stage: Stage) -> tuple[Tensor, Tensor]:
        """The loss of the step on validation images."""
        logits, scope, rest = self.terms(images, stage)
        return cross_entropies(logits, labels, scope).mean() + rest, n_right(logits, labels, scope)

    def scope(self) -> range | None:
        return self.blocks[-1]

    def terms(self, images: Images, stage: Stage) -> Terms:
        anchors = self.asked(images, stage)
        features, new = self.features(images, stage), self.network.head(-1)
        logits = unmoved(new, features) if stage.name == "body" else new(features)
        return Terms(logits, self.scope(), self.kept(features, anchors))

    @torch.no_grad()
    def asked(self, images: Images, stage: Stage) -> list[Anchor]:
        """What the networks that a step keeps to make of its images, before its own pass: then less is in memory."""
        networks = {"body": [self.before], "all": [self.before, self.between]}.get(stage.name, [])
        features = [(network, network.features(images)) for network in networks if network is not None]
        return [Anchor(of_network, network.classify(of_network)) for network, of_network in features]

    def features(self, images: Images, stage: Stage) -> Features:
        """Of the body, without gradients where it stands still."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and stage.name in TRAINS_BODY):
            return self.network.features(images)

    def kept(self, features: Features, anchors: list[Anchor]) -> Tensor | float:
        """What a step asks of the old classes' logits O_old, by the number of its anchors."""
        if not anchors:
            return 0.0
        old = torch.cat([self.network.head(t)(features) for t in range(len(self.blocks) - 1)], dim=1)
        if len(anchors) == 1:
            return distillation(old, anchors[0].logits, self.config.temperature)
        return self.anchored(features, old, *anchors)

    def anchored(self, features: Features, old: Logits, before: Anchor, between: Anchor) -> Tensor:
        """What the last step asks."""
        return two_anchors(old, before.logits, between.logits, self.config.balance, self.config.temperature)

    # ---- what is kept

    def bytes_kept(self, n_classes: int) -> int:
        """Both copies, which are there while a task is learned."""
        return 2 * bytes_of(self.network)

    def state_dict(self) -> State:
        return super().state_dict() | {"before": teacher_state(self.before), "between": teacher_state(self.between)}

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict(state)
        self.before, self.between = (restored_teacher(state[name], self.network) for name in ("before", "between"))


class NFL(Stepwise[NFLConfig]):
    """In its last step L = α KD_p(H → O_old) + (1 − α) KD_p(H' → O_old) + CE of the new classes."""

    card = Card(
        title="NFL (no forgetting learning)",
        paper="Vahedifar and Zhang, 2025",
        page="nfl",
        memory="nothing; while training two copies of the network",
        alike=True,
        parallel=True,
        quick=False,
        space={"train.lr": RATES},
        adds_up=True,
    )
    Config: ClassVar[type] = NFLConfig

"""NFL+ (Vahedifar and Zhang, 2025): NFL whose features keep their code, and whose old targets are rescaled."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from snv.components import unmoved
from snv.data import Task
from snv.errors import UserError
from snv.files import State
from snv.learners.base import Learner
from snv.learners.card import Card
from snv.learners.checks import check_least, check_range
from snv.learners.grids import RATES, paper_presets
from snv.learners.nfl import Anchor, NFLConfig, Stepwise, Terms, two_anchors
from snv.networks import AutoEncoder, Code, Factors, Rescaling, bytes_of
from snv.seeding import generator
from snv.shapes import Features, Images, Labels, Logits
from snv.training import Batch, Setting, Stage

RESCALING_EPOCHS = 50
"""At most so many passes over the validation images teach Γ."""


@dataclass(frozen=True)
class NFLPlusConfig(NFLConfig):
    """The SNV paper's choices, the same for all data sets."""

    balance: float = 0.5  # η
    reconstruction: float = 0.5  # Ω, of a mean over features
    lr_ae: float = 1e-3  # of the auto-encoder and of Γ, by Adam
    bottleneck: int | None = None  # numbers in the code; None: a quarter of the features, at least 8, at most half
    reference: Literal["before task", "before step"] = "before task"  # whose code is kept; the second: their code

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "reconstruction", 0, advice="Try 0.5.")
        check_least(self, 1, "bottleneck", advice="Try a quarter of the features.")
        if not 0 < self.lr_ae < float("inf"):
            raise UserError(f"learner.lr_ae is a positive number; got {self.lr_ae}. Try 0.001.")

    def code_size(self, n_features: int) -> int:
        """b, which is less than F."""
        size = self.bottleneck or min(max(8, n_features // 4), n_features // 2)
        if size >= n_features:
            raise UserError(
                f"learner.bottleneck is smaller than the {n_features} features of the network; got {size}. "
                f"Try {max(1, n_features // 4)}."
            )
        return size


def reconstruction_error(restored: Features, features: Features) -> Tensor:
    """mean ‖R(f) − f‖², over images and features."""
    return (restored - features).square().mean()


def code_drift(now: Code, before: Code) -> Tensor:
    """mean (relu(W_e f) − relu(W_e f*))², over images and numbers of the code."""
    return (now - before).square().mean()


def correction(factors: Factors) -> Tensor:
    """mean (Γ(f) − 1)²: what teaches Γ to stay near 1."""
    return (factors - 1).square().mean()


class NFLPlus(Stepwise[NFLPlusConfig]):
    """As NFL, but the last step is η KD_p(Γ ⊙ H → O_old) + (1 − η) KD_p(H' → O_old) + `code_drift` + CE.

    Before it Γ is learned from validation images; after every task an auto-encoder learns the features for the next.
    """

    card = Card(
        title="NFL+ (no forgetting learning with an auto-encoder)",
        paper="Vahedifar and Zhang, 2025",
        page="nfl_plus",
        memory="an auto-encoder of the features, a row of it per old class; while training two copies of the network",
        quick=False,
        space={
            "train.lr": RATES,
            "learner.temperature": (2, 3, 4),
            "learner.reconstruction": (0.1, 0.3, 0.5, 1),
            "learner.balance": (0.3, 0.5, 0.7),
            "learner.lr_ae": (1e-4, 1e-3, 1e-2),
        },
        idle_first=("learner.temperature", "learner.reconstruction", "learner.balance", "learner.lr_ae"),
        presets=paper_presets(
            1e-2,
            {
                "learner.temperature": 2,
                "learner.reconstruction": 0.5,
                "learner.balance": 0.5,
                "learner.lr_ae": 1e-3,
            },
        ),
        adds_up=True,
    )
    Config: ClassVar[type] = NFLPlusConfig

    def __init__(self, setting: Setting, config: NFLPlusConfig | None = None) -> None:
        super().__init__(setting, config)
        n_features = setting.network.body.n_features
        self.size = self.config.code_size(n_features)
        made = AutoEncoder(n_features, self.size, generator(setting.seed, "auto-encoder"))
        self.autoencoder = made.to(setting.device)
        self.rescaling: Rescaling | None = None  # Γ, once there are old classes

    def _rescaling(self, n: int) -> Rescaling:
        rng = generator(self.setting.seed, "rescaling", n)
        return Rescaling(self.size, n, rng).to(self.setting.device)

    # ---- the course of a task

    def begin_task(self, task: Task) -> None:
        super().begin_task(task)
        if task.block.start > 0:
            known, self.rescaling = self.rescaling, self._rescaling(task.block.start)
            if known is not None:
                self.rescaling.copy_rows(known)

    def stages(self, task: Task) -> list[Stage]:
        stages, train = super().stages(task), self.setting.train
        own = dataclasses.replace(train, optimizer="adam", lr=self.config.lr_ae, weight_decay=0.0)
        if len(stages) > 1:
            few = dataclasses.replace(own, epochs=min(RESCALING_EPOCHS, train.epochs), augment=False)
            stages.insert(2, Stage("rescaling", few, train=task.val))
        return [*stages, Stage("code", own)]

    # ---- one step

    def parameters(self, stage: Stage) -> Iterable[nn.Parameter]:
        if stage.name == "code":
            return self.autoencoder.parameters()
        if stage.name == "rescaling":
            assert self.rescaling is not None
            return self.rescaling.parameters()
        return super().parameters(stage)

    def loss(self, batch: Batch) -> Tensor:
        if batch.stage.name == "rescaling":
            return correction(self.factors(self.code(self.features(batch.images, batch.stage))))
        return super().loss(batch)

    def validation(self, images: Images, labels: Labels, stage: Stage) -> tuple[Tensor, Tensor]:
        loss, right = super().validation(images, labels, stage)
        if stage.name == "rescaling":
            loss = correction(self.factors(self.code(self.features(images, stage))))
        return loss, right

    def terms(self, images: Images, stage: Stage) -> Terms:
        """While the auto-encoder learns: Ω mean‖R(f) − f‖² + CE of what the heads make of R(f)."""
        if stage.name != "code":
            return super().terms(images, stage)
        features = self.features(images, stage)
        restored, scope = self.autoencoder(features), Learner.scope(self)
        n_heads = len(self.network.heads) if scope is None else 1  # the newest at least
        logits = torch.cat([unmoved(self.network.head(t), restored) for t in range(-n_heads, 0)], dim=1)
        return Terms(logits, scope, self.config.reconstruction * reconstruction_error(restored, features))

    def anchored(self, features: Features, old: Logits, before: Anchor, between: Anchor) -> Tensor:
        code, reference = self.code(features), before if self.config.reference == "before task" else between
        with torch.no_grad():  # targets that moved with the network would come to meet it
            corrected = self.factors(code) * before.logits
            kept = self.code(reference.features)
        anchors = two_anchors(old, corrected, between.logits, self.config.balance, self.config.temperature)
        return anchors + code_drift(code, kept)

    def code(self, features: Features) -> Code:
        """relu(W_e f), of an encoder that does not move."""
        return F.relu(unmoved(self.autoencoder.encoder, features))

    def factors(self, code: Code) -> Factors:
        assert self.rescaling is not None
        factors: Factors = self.rescaling(code)
        return factors

    # ---- what is kept

    def bytes_kept(self, n_classes: int) -> int:
        return super().bytes_kept(n_classes) + bytes_of(self.autoencoder) + 4 * n_classes * (self.size + 3)

    def state_dict(self) -> State:
        rescaling = None if self.rescaling is None else dict(self.rescaling.state_dict())
        return super().state_dict() | {"autoencoder": dict(self.autoencoder.state_dict()), "rescaling": rescaling}

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict(state)
        self.autoencoder.load_state_dict(state["autoencoder"])
        self.rescaling = None
        if (rescaling := state["rescaling"]) is not None:
            self.rescaling = self._rescaling(len(rescaling["scale"]))
            self.rescaling.load_state_dict(rescaling)

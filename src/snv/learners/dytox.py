"""DyTox (Douillard et al., 2022): a transformer that all tasks share, asked by one learned token per task."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from snv.components import Exemplars, Joined, buffer_size, restored_teacher, teacher_state
from snv.data import Task
from snv.errors import UserError
from snv.files import State
from snv.learners.base import Learner
from snv.learners.card import Card
from snv.learners.checks import check_least, check_range
from snv.learners.grids import RATES, paper_presets
from snv.networks import (
    Network,
    answers_of,
    bytes_of,
    divergence_head,
    frozen_copy,
    n_parameters,
    n_units,
    token_network,
)
from snv.shapes import Features, Images, Labels, Logits
from snv.training import Batch, Setting, Stage, first_class, n_right


@dataclass(frozen=True)
class DyToxConfig:
    """Sizes of its own transformer, and the weights of its losses; lr and weight decay are those of training."""

    encoder: Literal["patches", "resnet"] = "patches"  # the original's first choice; resnet: stages 1 to 3 of `network`
    buffer: int | None = None  # K; None: the paper's, 2,000 in CIL and 200 in TIL (ImageNet-1k in CIL: set 20000)
    dim: int | None = None  # D of patches; None: as large as `network`; the original's 384 beside a ResNet-18
    heads: int | None = None  # of attention; None: one per 32 of D, at least 4 (the original's 12 for 384); resnet: 12
    depth: int = 5  # blocks of patches; the original's
    patch: int | None = None  # pixels of its side; None: the original's 4 up to 32 and 16 from 128 pixels on, else 8
    temperature: float = 1.0  # τ; the original's
    asked: float = 1.0  # share of a batch that the previous model answers; the original's is all of it
    divergence: float = 0.1  # weight of the loss that tells new classes from old; the original's
    finetune_epochs: int = 20  # on the balanced memory after every later task; the original's
    finetune_lr: float = 0.1  # times train.lr; the original's 5e-5 beside 5e-4

    def __post_init__(self) -> None:
        check_least(self, 1, "buffer", advice="Try 2000.")
        check_least(self, 1, "dim", "heads", "patch", advice="Leave it out for the default.")
        check_least(self, 1, "depth")
        check_least(self, 0, "divergence", "finetune_epochs")
        check_range(self, "asked", 0.01, 1, advice="Try 1, or 0.5 for faster steps.")
        for name in ("temperature", "finetune_lr"):
            if not 0 < getattr(self, name) < float("inf"):
                advice = f"Try {getattr(type(self), name)}."
                raise UserError(f"learner.{name} is a positive number; got {getattr(self, name)}. {advice}")


# ---- losses


def sigmoid_loss(logits: Logits, labels: Labels, smoothing: float = 0.0) -> Tensor:
    """BCE(z, onehot): the mean over images and classes, each of which is a question of its own."""
    n_classes = logits.shape[1]
    targets = F.one_hot(labels, n_classes) * (1 - smoothing) + smoothing / n_classes
    return F.binary_cross_entropy_with_logits(logits.float(), targets)


def forgotten(logits: Logits, old_logits: Logits, temperature: float) -> Tensor:
    """τ² KL(softmax(a/τ) ‖ softmax(z/τ)) of the previous model's a and z of the same classes.

    Note: a mean over images and classes, as in the original, so as many times weaker as there are old classes.
    """
    now, before = (F.log_softmax(z.float() / temperature, dim=1) for z in (logits, old_logits))
    return temperature**2 * F.kl_div(now, before, reduction="none", log_target=True).mean()


def newness(labels: Labels, block: range) -> Labels:
    """ỹ: 0 for every old class, 1 … k for those of ``block``."""
    return (labels - block.start + 1).clamp(min=0)


class DyTox(Learner[DyToxConfig]):
    """L = (1 − a) BCE(z) + a KL(old ‖ z) + 0.1 BCE(d(e_t), ỹ) on the new task and exemplars, a = old / seen classes.

    Encoder, task attention, the new token and its head move; old tokens and heads stand still. Then all but the encoder
    is finetuned on the exemplars, as many of each class. Training is the same in TIL and CIL.
    """

    card = Card(
        title="DyTox (transformers for continual learning with dynamic token expansion)",
        paper="Douillard et al., 2022",
        page="dytox",
        memory="exemplar images: 2,000 in CIL, 200 in TIL; a token per task; the previous model while training",
        stores_images=True,
        one_network=False,  # a transformer, whose neurons cannot be cut out
        quick=False,
        space={"train.lr": RATES},
        presets=paper_presets(1e-3),
    )
    Config: ClassVar[type] = DyToxConfig

    def __init__(self, setting: Setting, config: DyToxConfig | None = None) -> None:
        super().__init__(setting, config)
        sizes = {name: getattr(self.config, name) for name in ("encoder", "dim", "heads", "depth", "patch")}
        made = token_network(setting.network, setting.preprocess.shape, setting.seed, **sizes)
        self.tokens = made.to(setting.device)
        self.network = self.tokens
        self.memory_size = buffer_size(self.config.buffer, setting.scenario)
        self.exemplars = Exemplars()
        self.teacher: Network | None = None  # the previous model, while a task is learned
        self.divergence: nn.Module | None = None  # d, while a later task is learned

    # ---- the course of a task

    def begin_task(self, task: Task) -> None:
        if self.blocks:
            self.teacher = frozen_copy(self.network, len(self.blocks))
        super().begin_task(task)
        self.divergence = self._divergence_head() if self.teacher is not None else None

    def _divergence_head(self) -> nn.Module:
        return divergence_head(self.tokens.dim, self.blocks[-1], self.setting.seed).to(self.setting.device)

    def stage(self, task: Task, index: int) -> Stage | None:
        """Training with the exemplars of old classes; after later tasks, finetuning on those of all classes."""
        train = self.setting.train
        if index == 0:
            joined = Joined(task.train, self.exemplars.split()) if len(self.exemplars) else task.train
            return Stage("train", train, train=joined)
        if index > 1 or len(self.blocks) == 1 or self.config.finetune_epochs == 0:
            return None
        epochs, lr = self.config.finetune_epochs, train.lr * self.config.finetune_lr
        slow = dataclasses.replace(train, epochs=epochs, lr=lr, patience=0, schedule="constant", warmup=0)
        return Stage("finetune", slow, train=self.exemplars.split())

    def end_stage(self, task: Task, stage: Stage) -> None:
        """After training, exemplars are chosen; what only training needs is dropped."""
        if stage.name == "train":
            self.network.eval()
            with torch.no_grad(), self.reporter.phase("memory"):
                self.exemplars.choose(task.train, task.block, self._herded(task), self.memory_size)
            self.teacher = self.divergence = None

    def _herded(self, task: Task) -> Features:
        """All embeddings of the task's images, each of length 1, side by side."""
        heads = self.tokens.of(range(len(self.blocks)))
        batches = self.setting.prepared(task.train, tell=partial(self.reporter.tell, "exemplars"))
        found = [self.tokens.embeddings(self.network.features(images), heads) for images, _ in batches]
        return F.normalize(torch.cat(found), dim=2).flatten(1)

    # ---- one step

    def parameters(self, stage: Stage) -> Iterable[nn.Parameter]:
        shared, heads = self.tokens.attention, self.network.heads
        if stage.name == "finetune":
            return [*shared.parameters(), *heads.parameters()]
        own = [self.network.body, shared, *heads[-1:], *([self.divergence] if self.divergence is not None else [])]
        return [p for module in own for p in module.parameters()]

    def set_training(self, training: bool, stage: Stage) -> None:
        """What does not move gets no gradient either, and a body that stands still keeps its norm statistics."""
        moving = {id(p) for p in self.parameters(stage)}
        for p in self.network.parameters():
            p.requires_grad_(id(p) in moving)
        super().set_training(training, stage)
        self.network.body.train(training and stage.name == "train")

    def loss(self, batch: Batch) -> Tensor:
        heads = self.tokens.of(range(len(self.blocks)))
        embeddings = self.tokens.embeddings(self.network.features(batch.images), heads)
        logits = answers_of(heads, embeddings)
        named = sigmoid_loss(logits, batch.labels, batch.stage.settings.smoothing)
        if self.teacher is None or self.divergence is None:
            return named
        n_asked = math.ceil(self.config.asked * len(logits))  # batches are shuffled, so these are any
        with torch.no_grad():
            old_logits = self.teacher(batch.images[:n_asked])
        n_old = old_logits.shape[1]
        share = n_old / logits.shape[1]  # a
        kept = forgotten(logits[:n_asked, :n_old], old_logits, self.config.temperature)
        told = sigmoid_loss(self.divergence(embeddings[:, -1]), newness(batch.labels, self.blocks[-1]))
        total: Tensor = (1 - share) * named + share * kept + self.config.divergence * told
        return total

    def validation(self, images: Images, labels: Labels, stage: Stage) -> tuple[Tensor, Tensor]:
        """BCE of all classes seen, on images of the current task."""
        logits, scope = self.network(images), self.scope()
        return sigmoid_loss(logits, labels), n_right(logits[:, first_class(scope) :], labels, scope)

    # ---- prediction

    def logits(self, images: Images, block: range | None) -> Logits:
        """Of all tokens (CIL), or of one token alone (TIL)."""
        if block is None or block in self.blocks:
            return super().logits(images, block)
        heads = [self.tokens.fresh_head(block.start, len(block))]
        return answers_of(heads, self.tokens.embeddings(self.network.features(images), heads))

    # ---- what is kept

    def capacity(self) -> dict[str, float]:
        """Against the network DyTox does without: encoder, task attention, and what tasks have beside a linear head."""
        body, own = self.setting.network.body, (self.network.body, self.tokens.attention)
        added = sum(3 * self.tokens.dim for _ in self.blocks)  # token and norm
        parameters = (n_parameters(*own) + added) / n_parameters(body)
        return {"parameters": parameters, "neurons": n_units(*own) / n_units(body)}

    def bytes_kept(self, n_classes: int) -> int:
        return self.memory_size * self.setting.preprocess.n_bytes + bytes_of(self.network)

    def state_dict(self) -> State:
        return super().state_dict() | {
            "exemplars": self.exemplars.state_dict(),
            "teacher": teacher_state(self.teacher),
            "divergence": None if self.divergence is None else dict(self.divergence.state_dict()),
        }

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict(state)
        self.exemplars.load_state_dict(state["exemplars"])
        self.teacher = restored_teacher(state["teacher"], self.network)
        self.divergence = None
        if state["divergence"] is not None:
            self.divergence = self._divergence_head()
            self.divergence.load_state_dict(state["divergence"])

"""What every method is: how to start a task, what to do with a batch, what to keep, what to predict."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from snv.data import Preprocess, Split, Task
from snv.files import State, bytes_in
from snv.learners.card import Card, Scenario
from snv.networks import Network, bytes_of
from snv.shapes import Images, Labels, Logits
from snv.shapley import Told
from snv.training import Batch, Stage, Surroundings, Training, TrainSettings, descend
from snv.valuation import OfSplit


@dataclass(frozen=True)
class Setting:
    """What a learner is given when it is made. No data, no logger, no file."""

    network: Network
    scenario: Scenario
    train: TrainSettings
    preprocess: Preprocess
    device: torch.device
    seed: int
    n_tasks: int

    def autocast(self) -> AbstractContextManager[Any]:
        """bf16 where `TrainSettings.precision` says so; wrap forward passes of training in it, nothing else."""
        if self.train.precision == "bf16":
            return torch.autocast(self.device.type, torch.bfloat16)
        return nullcontext()

    def examples(self, split: Split) -> OfSplit:
        """The images of a split as the network takes them, fetched when they are needed."""
        return OfSplit(split, self.preprocess, self.device, self.train.channels_last)


@dataclass(frozen=True)
class NoConfig:
    """A method without settings of its own."""


class Learner:
    """A method of continual learning; the default is plain training of the current task.

    The engine calls, for each task: `begin_task`; then for each stage `begin_stage`, steps and epochs, `end_stage`;
    then `end_task`. Everything between two calls is in `state_dict`, so training may stop at any step and go on later.
    """

    card: ClassVar[Card]
    Config: ClassVar[type] = NoConfig

    def __init__(self, setting: Setting, config: Any = None) -> None:
        self.setting = setting
        self.config = config if config is not None else self.Config()
        self.network = setting.network
        self.blocks: list[range] = []  # classes of the tasks begun so far
        self.valuations: list[Told | None] = []  # what the valuation of each task said of itself, if neurons are valued
        self.phase: Callable[[str], AbstractContextManager[Any]] = lambda _: nullcontext()  # what work counts as
        self.counted: Callable[[str, int], AbstractContextManager[Any]] = lambda _kind, _n: nullcontext()
        self.tell: Callable[[str, float, float], None] = lambda *_: None  # what is being done, how much of how much

    # ---- the course of a task

    def begin_task(self, task: Task) -> None:
        """Make room for the classes of a new task."""
        self.network.add_head(self.n_outputs(task.block))
        self.blocks.append(task.block)

    def n_outputs(self, block: range) -> int:
        """How many outputs the head of a task has."""
        return len(block)

    def stage(self, task: Task, index: int) -> Stage | None:
        """The stage number ``index`` of this task, or None when the task is done."""
        return Stage("train", self.setting.train) if index == 0 else None

    def begin_stage(self, task: Task, stage: Stage) -> None:
        """Whatever a stage needs before its first step."""

    def end_epoch(self, stage: Stage, epoch: int, optimizer: torch.optim.Optimizer) -> None:
        """Whatever happens between two epochs."""

    def end_stage(self, task: Task, stage: Stage) -> None:
        """Whatever happens once a stage's best epoch is restored."""

    def end_task(self, task: Task) -> None:
        """What is kept of a task before its data are gone."""

    # ---- one step

    def training_split(self, task: Task, stage: Stage) -> Split:
        """The images a stage trains on."""
        return task.train

    def parameters(self, stage: Stage) -> Iterable[nn.Parameter]:
        """What the optimiser of a stage may move."""
        return self.network.parameters()

    def set_training(self, training: bool, stage: Stage) -> None:
        self.network.train(training)

    def step(self, batch: Batch, optimizer: torch.optim.Optimizer) -> Tensor:
        """One update; returns the loss."""
        with self.setting.autocast():
            loss = self.loss(batch)
        return descend(loss, optimizer, batch.stage.settings.clip_norm)

    def loss(self, batch: Batch) -> Tensor:
        """What a step minimises."""
        return self.training_loss(self.task_logits(batch.images), batch.labels)

    def scope(self) -> range | None:
        """The classes training compares: the current task's (TIL), or all seen, which is None (CIL)."""
        return self.blocks[-1] if self.setting.scenario == "til" else None

    def task_logits(self, images: Images) -> Logits:
        """Of the classes in `scope`; other heads get no gradient, not even one of zeros, which Adam would decay."""
        return self.logits(images, self.scope())

    def task_losses(self, logits: Logits, labels: Labels, smoothing: float = 0.0) -> Tensor:
        """Cross-entropy of each image within what `task_logits` gives."""
        answers = labels - self._offset()
        return F.cross_entropy(logits.float(), answers, reduction="none", label_smoothing=smoothing)

    def training_loss(self, logits: Logits, labels: Labels) -> Tensor:
        """Their mean over a batch, with labels smoothed as `TrainSettings.smoothing` says."""
        return self.task_losses(logits, labels, self.setting.train.smoothing).mean()

    def n_right(self, logits: Logits, labels: Labels) -> Tensor:
        """How many images `task_logits` answers right."""
        return (logits.argmax(1) + self._offset() == labels).sum()

    def validation(self, images: Images, labels: Labels, stage: Stage) -> tuple[Tensor, Tensor]:
        """Mean loss and number of right answers on validation images of the current task."""
        logits = self.task_logits(images)
        return self.task_losses(logits, labels).mean(), self.n_right(logits, labels)

    def _offset(self) -> int:
        """The first class that `task_logits` speaks of."""
        scope = self.scope()
        return 0 if scope is None else scope.start

    def work(self, batch: Batch) -> str:
        """A name for steps of this stage that cost the same, where not all do."""
        return ""

    # ---- prediction

    @property
    def has_learned(self) -> bool:
        """Whether there is anything to evaluate."""
        return True

    def logits(self, images: Images, block: range | None) -> Logits:
        """Scores of the classes of ``block`` (TIL: the task is known), or of all classes seen (CIL: None).

        A block not learned yet is answered by the head it will start from.
        """
        logits: Logits
        if block is None:
            logits = self.network(images)
        elif block in self.blocks:
            logits = self.network(images, self.blocks.index(block))
        else:
            logits = self.network.fresh_head(block.start, len(block))(self.network.features(images))
        return logits

    def predict(self, images: Images, block: range | None) -> Labels:
        """Global class indices."""
        return self.logits(images, block).argmax(1) + (0 if block is None else block.start)

    def put_in_place(self, t: int) -> None:
        """Give the shared network whatever belongs to task t alone, such as its norm layers."""

    # ---- what is kept

    def bytes_kept(self, n_classes: int) -> int:
        """About the most a checkpoint holds besides `network` as it is at first, when ``n_classes`` are learned."""
        return 0

    def state_dict(self) -> State:
        """All that outlives a step; tensors may be live, so clone what must not change."""
        return {"blocks": [[b.start, b.stop] for b in self.blocks], "network": dict(self.network.state_dict())}

    def load_state_dict(self, state: State) -> None:
        self.blocks = [range(start, stop) for start, stop in state["blocks"]]
        for block in self.blocks[len(self.network.heads) :]:
            self.network.add_head(self.n_outputs(block))
        self.network.load_state_dict(state["network"])

    def capacity(self) -> dict[str, float]:
        """CAP (Eq. 12): share of the dense network's parameters, and of its neurons, that all tasks so far use.

        Parameters of which every task has a copy of its own, such as norm layers, count once for each.
        """
        return {"parameters": 1.0, "neurons": 1.0}

    def bytes_beyond_network(self) -> int:
        """All that is kept now beside the network and its heads: masks, copies, statistics, images, by count."""
        return bytes_in(self.state_dict()) - bytes_of(self.network)


def learn_task(learner: Learner, task: Task, around: Surroundings) -> None:
    """One task from beginning to end, without interruptions."""
    learner.begin_task(task)
    learn_stages(learner, task, around)
    learner.end_task(task)


def learn_stages(learner: Learner, task: Task, around: Surroundings) -> None:
    """Every stage of a task that has begun."""
    index = 0
    while (stage := learner.stage(task, index)) is not None:
        learner.begin_stage(task, stage)
        Training(learner, task, stage, around).run()
        learner.end_stage(task, stage)
        index += 1

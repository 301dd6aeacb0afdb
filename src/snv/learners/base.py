"""What every method is: how to start a task, what to do with a batch, what to keep, what to predict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import Tensor, nn

from snv.data import Task
from snv.files import State, bytes_in
from snv.learners.card import Card
from snv.networks import bytes_of
from snv.neurons import NeuronTable
from snv.shapes import Images, Labels, Logits
from snv.shapley import Account
from snv.training import EVALUATION_BATCH, Batch, Reporter, Setting, Stage, cross_entropies, descend, n_right

C = TypeVar("C")
"""The settings of a method."""


@dataclass(frozen=True)
class NoConfig:
    """A method without settings of its own."""


class Learner(Generic[C]):
    """A method of continual learning; the default is plain training of the current task.

    For each task there are called: `begin_task`; then for each `stage` its steps, with validation after every epoch,
    and `end_stage`; then `end_task`. Everything between two calls is in `state_dict`, so training may stop at any step
    and go on later.
    """

    card: ClassVar[Card]
    Config: ClassVar[type] = NoConfig

    def __init__(self, setting: Setting, config: C | None = None) -> None:
        self.setting = setting
        self.config: C = self.Config() if config is None else config
        self.network = setting.network
        self.reporter = Reporter()  # who hears of its work
        self.parts = 1  # in which the images of a step go through the network: more where memory ran out
        self.at_once = EVALUATION_BATCH  # images that are evaluated together: fewer where memory ran out
        self.blocks: list[range] = []  # classes of the tasks begun so far
        self.ready = True  # whether there is anything to evaluate once a task is over
        self.valuations: list[Account | None] = []  # what each task's valuation said of itself, if neurons are valued

    # ---- the course of a task

    def begin_task(self, task: Task) -> None:
        """Make room for the classes of a new task."""
        self.network.add_head(len(task.block))
        self.blocks.append(task.block)

    def stage(self, task: Task, index: int) -> Stage | None:
        """The stage number ``index`` of this task, or None when the task is done."""
        return Stage("train", self.setting.train) if index == 0 else None

    def end_stage(self, task: Task, stage: Stage) -> None:
        """Whatever happens once a stage's best epoch is restored."""

    def end_task(self, task: Task) -> None:
        """What is kept of a task before its data are gone."""

    # ---- one step

    def parameters(self, stage: Stage) -> Iterable[nn.Parameter]:
        """What the optimiser of a stage may move."""
        return self.network.parameters()

    def set_training(self, training: bool, stage: Stage) -> None:
        self.network.train(training)

    def step(self, batch: Batch, optimizer: torch.optim.Optimizer) -> Tensor:
        """One update; returns the loss."""
        return descend(self.losses(batch), optimizer, batch.stage.settings.clip_norm)

    def losses(self, batch: Batch) -> Iterator[Tensor]:
        """The loss of each part of a batch by its share of the images; their sum is minimised (see `Card.adds_up`)."""
        for part in batch.parts(self.parts):
            with self.setting.autocast():
                loss = self.loss(part)
            yield loss if self.parts == 1 else loss * (len(part.labels) / len(batch.labels))

    def loss(self, batch: Batch) -> Tensor:
        """What a step minimises: by default the cross-entropy of the classes in `scope`.

        Other heads get no gradient, not even one of zeros, which Adam would decay.
        """
        return batch.cross_entropy(self.logits(batch.images, self.scope()), self.scope())

    def scope(self) -> range | None:
        """The classes training compares: the current task's (TIL), or all seen, which is None (CIL)."""
        return self.blocks[-1] if self.setting.scenario == "til" else None

    def validation(self, images: Images, labels: Labels, stage: Stage) -> tuple[Tensor, Tensor]:
        """Mean loss and number of right answers on validation images of the current task."""
        logits, scope = self.logits(images, self.scope()), self.scope()
        return cross_entropies(logits, labels, scope).mean(), n_right(logits, labels, scope)

    # ---- prediction

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

    # ---- what is kept

    def bytes_kept(self, n_classes: int) -> int:
        """About the most a checkpoint holds besides `network` as it is at first, when ``n_classes`` are learned."""
        return 0

    def capacity(self) -> dict[str, float]:
        """CAP (Eq. 12): share of the dense network's parameters, and of its neurons, that all tasks so far use.

        Parameters of which every task has a copy of its own, such as norm layers, count once for each.
        """
        return {"parameters": 1.0, "neurons": 1.0}

    def neuron_table(self) -> NeuronTable | None:
        """What each neuron was worth to each task learned and which are in its subnetwork, of methods that know it."""
        return None

    def state_dict(self) -> State:
        """All that outlives a step; tensors may be live, so clone what must not change."""
        return {"blocks": [[b.start, b.stop] for b in self.blocks], "network": dict(self.network.state_dict())}

    def load_state_dict(self, state: State) -> None:
        self.blocks = [range(start, stop) for start, stop in state["blocks"]]
        for block in self.blocks[len(self.network.heads) :]:
            self.network.add_head(len(block))
        self.network.load_state_dict(state["network"])


def bytes_beyond_network(learner: Learner[Any], task: Task) -> int:
    """All that is kept after ``task`` beside the network and its heads: masks, copies, statistics, images, by count.

    A method that sees all tasks keeps their images, which are those of the last task it was given; of one whose network
    grows with tasks, everything counts.
    """
    if learner.card.sees == "all tasks":
        return (len(task.train) + len(task.val)) * learner.setting.preprocess.n_bytes
    return bytes_in(learner.state_dict()) - (0 if learner.card.grows else bytes_of(learner.network))

"""Shapley Neuron Values: train, value every neuron, keep the few the task needs, consolidate them, freeze them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from contextlib import AbstractContextManager
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn

from snv.components import Frozen
from snv.data import Task
from snv.files import State
from snv.learners.base import Learner
from snv.learners.card import Card
from snv.learners.grids import SNV_SPACE, paper_presets
from snv.learners.snv_budget import announce, selected
from snv.learners.snv_config import ADDED, IN_RUN, RETIRED, SNVConfig
from snv.learners.snv_evidence import add_statistics, add_to_common, common_space
from snv.learners.snv_values import check_players, contest_of, game_of, values_of
from snv.neurons import NeuronTable
from snv.seeding import derived_seed
from snv.shapes import Images, Logits, Values
from snv.subnetworks import (
    Specialists,
    Trainee,
    bytes_kept,
    hold_dense,
    restored_trainee,
    share_in_use,
    trainee_state,
)
from snv.training import Batch, Setting, Stage, whole
from snv.valuation import CarriedValues

IN_RUN_PAIRS = 12
"""Pairs of gate gradients an epoch of the dense phase takes on its own batches, if values come from training itself."""


class SNV(Learner[SNVConfig]):
    """Every task gets a subnetwork of whole neurons, trained, frozen and certified; nothing else is kept."""

    card = Card(
        title="SNV (Shapley Neuron Values)",
        paper="Shapley Neuron Values for Continual Learning",
        page="snv",
        memory="per task: 1 bit, 1 number and 4 norm entries per neuron, a head in the common space; in CIL class sums "
        "and one covariance",
        alike=True,
        parallel=True,
        retired=RETIRED,
        added=ADDED,
        space=SNV_SPACE,
        presets=paper_presets(  # the paper's c counts all neurons
            1e-2, {"learner.capacity": 0.1, "learner.size": "top-k"}, imagenet={"learner.capacity": 0.2}
        ),
        adds_up=True,
    )
    Config: ClassVar[type] = SNVConfig

    def __init__(
        self, setting: Setting, config: SNVConfig | None = None, specialists: Specialists | None = None
    ) -> None:
        """``specialists``: what was learned before in the same network."""
        super().__init__(setting, config)
        shape = setting.preprocess.shape
        self.specialists = specialists or Specialists(
            self.network, shape, self._phase, common_space(self.config, setting)
        )
        self.neurons = self.specialists.neurons
        check_players(self.config, self.neurons.n)
        self.values: list[Values] = []  # φ of each task
        self.trainee: Trainee | None = None  # the current task's subnetwork, while it consolidates
        self.frozen = Frozen([])  # what a step must not move, of the dense network or of the trainee
        self.carried = CarriedValues(self.neurons.n)  # of the in-run estimator

    def _phase(self, name: str) -> AbstractContextManager[None]:
        return self.reporter.phase(name)

    # ---- the course of a task

    def begin_task(self, task: Task) -> None:
        """Say what the task will get before it starts, then hold still what earlier ones read."""
        announce(self.specialists, self.config, len(self.blocks) + 1, self.setting.n_tasks)
        super().begin_task(task)
        self.specialists.copies.clear()
        self.carried = CarriedValues(self.neurons.n)
        self.frozen = hold_dense(self.specialists)

    def stage(self, task: Task, index: int) -> Stage | None:
        """A dense phase, then consolidation, within the epochs any other method has."""
        train = self.setting.train
        dense = max(1, min(train.epochs - 1, round(self.config.dense_share * train.epochs)))
        lengths = {0: ("dense", dense, "train"), 1: ("consolidate", max(1, train.epochs - dense), "consolidate")}
        if index not in lengths:
            return None
        name, epochs, phase = lengths[index]
        settings = dataclasses.replace(train, epochs=epochs)
        return Stage(name, settings, phase, begins=index * dense, of_epochs=dense + lengths[1][1])

    def end_stage(self, task: Task, stage: Stage) -> None:
        if stage.name == "dense":
            with self.reporter.phase("value"):
                values = self._value(task)  # φ
                mask = selected(values, self.specialists, self.config, len(self.blocks), self.setting.n_tasks)  # S_t
                self.trainee = Trainee.of(self.specialists, mask)
                self.frozen = self.trainee.frozen  # Eqs. 8 and 9
        else:
            with self.reporter.phase("certify"):
                assert self.trainee is not None
                self.specialists.adopt(self.trainee.written_back(), self.setting.seed + task.id)  # Eq. 7
                self.trainee, self.frozen = None, Frozen([])

    def _value(self, task: Task) -> Values:
        """What each neuron is worth on the task's validation images, within its own head."""
        logits, seed = partial(self.logits, block=task.block), derived_seed(self.setting.seed, "valuation", task.id)
        game = game_of(task, logits, self.specialists, self.setting, self.config)  # V(S)
        contest = contest_of(self.specialists, self.config)
        values, account = values_of(game, self.config, contest, self.carried, seed, self.reporter.tell)
        self.values.append(values)
        self.valuations.append(account)
        return values

    @torch.no_grad()
    def end_task(self, task: Task) -> None:
        """What is kept of the training images: in the common space, or in CIL as the specialists see them."""
        with self.reporter.phase("statistics"):
            if self.config.common != "none":
                add_to_common(self.specialists, task, self.setting, self.reporter)
            elif self.setting.scenario == "cil":
                add_statistics(self.specialists, task, self.setting, self.reporter)

    # ---- one step

    def parameters(self, stage: Stage) -> Iterable[nn.Parameter]:
        moving = [self.trainee.small] if self.trainee is not None else [self.network.body, self.network.heads[-1]]
        return [p for module in moving for p in module.parameters() if p.requires_grad]

    def set_training(self, training: bool, stage: Stage) -> None:
        self.network.train(training and stage.name == "dense")
        if self.trainee is not None:
            self.trainee.small.train(training)

    def scope(self) -> range:
        """Training compares the classes of the current task, in TIL and CIL."""
        return self.blocks[-1]

    def step(self, batch: Batch, optimizer: torch.optim.Optimizer) -> Tensor:
        """One update that leaves every frozen weight bit-identical (Eqs. 8 and 9)."""
        loss = super().step(batch, optimizer)
        self.frozen.restore()
        every = max(1, batch.n_steps // IN_RUN_PAIRS)  # in every epoch, since any may turn out to be the best
        if self.config.estimator == IN_RUN and batch.stage.name == "dense" and batch.step % every == 0:
            with self.reporter.counted(f"values {batch.task}", len(batch.labels)):
                images, labels = whole(batch.images, batch.part), whole(batch.labels, batch.part) - self.scope().start
                logits = partial(self.logits, block=self.scope())
                self.carried.add(self.network, self.neurons, images, labels, logits, batch.seed)
        return loss

    # ---- prediction

    def logits(self, images: Images, block: range | None) -> Logits:
        """Of the specialists; of the task that consolidates, its trainee's."""
        learned = self.blocks[: len(self.specialists.subnetworks)]
        if block in learned:
            return self.specialists.logits(images, learned.index(block))
        if block is None and learned:
            return self.specialists.logits(images, None, self.config.rule)
        if self.trainee is not None and block == self.blocks[-1]:
            logits: Logits = self.trainee.small(images)
            return logits
        return super().logits(images, block)

    # ---- what is kept

    def capacity(self) -> dict[str, float]:
        return share_in_use(self.specialists)

    def bytes_kept(self, n_classes: int) -> int:
        return bytes_kept(self.specialists, self.setting.n_tasks, n_classes, self.setting.scenario == "cil")

    def neuron_table(self) -> NeuronTable:
        return NeuronTable.of(self.neurons, self.values, [found.mask for found in self.specialists.subnetworks])

    def state_dict(self) -> State:
        return {
            "blocks": [[b.start, b.stop] for b in self.blocks],
            **self.specialists.state(),
            "values": list(self.values),
            "valuations": list(self.valuations),
            **self.carried.state(),
            **trainee_state(self.trainee),
        }

    def load_state_dict(self, state: State) -> None:
        self.blocks = [range(start, stop) for start, stop in state["blocks"]]
        self.specialists.load(state)
        self.values = list(state["values"])
        known = list(state.get("valuations", []))  # older checkpoints have none, and models keep none
        self.valuations = [None] * (len(self.values) - len(known)) + known
        self.carried = CarriedValues.from_state(state)
        self.trainee = restored_trainee(state, self.specialists, self.trainee)
        self.frozen = hold_dense(self.specialists) if self.trainee is None else self.trainee.frozen

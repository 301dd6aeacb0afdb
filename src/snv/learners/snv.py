"""Shapley Neuron Values: train, value every neuron, keep the few the task needs, consolidate them, freeze them."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Iterable
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from snv.components import Frozen
from snv.data import Task
from snv.errors import UserError
from snv.files import State
from snv.learners.base import Learner, Setting
from snv.learners.card import Card
from snv.learners.snv_config import IN_RUN, RETIRED, SNVConfig
from snv.networks import load_norm
from snv.neurons import Neurons, n_weights_outside, own_weights
from snv.seeding import derived_seed, generator
from snv.shapes import Images, Indices, Labels, Logits, Mask, Values
from snv.shapley import ESTIMATORS, MOST_PLAYERS, GradientSettings, estimate, gates_of_pair
from snv.shapley import told as told_of
from snv.subnetworks import (
    Specialists,
    Statistics,
    Subnetwork,
    Trainee,
    hold,
    measure,
    plan,
    select,
    subnetwork_of,
)
from snv.training import EVALUATION_BATCH, Batch, Stage, descend
from snv.valuation import SCORES, NeuronGame

log = logging.getLogger(__name__)

IN_RUN_PAIRS = 12
"""Pairs of gate gradients an epoch of the dense phase takes on its own batches, if values come from training itself."""
N_MEASURED = 1500
"""Training images from which a task's statistics for `snv.subnetworks.rules` are taken."""


class SNV(Learner):
    """Every task gets a subnetwork of whole neurons, trained, frozen and certified; nothing else is kept."""

    card = Card(
        title="SNV (Shapley Neuron Values)",
        paper="Shapley Neuron Values for Continual Learning",
        page="snv",
        memory="per task: 1 bit, 1 number and 4 norm entries per neuron; in CIL class means and a covariance",
        retired=RETIRED,
    )
    Config: ClassVar[type] = SNVConfig

    def __init__(self, setting: Setting, config: Any = None, specialists: Specialists | None = None) -> None:
        """``specialists``: what was learned before in the same network."""
        super().__init__(setting, config)
        shape = setting.preprocess.shape
        self.specialists = specialists or Specialists(self.network, shape, lambda: self.phase("cut"))
        if self.config.estimator == "exact" and self.neurons.n > MOST_PLAYERS:
            raise UserError(
                f"learner.estimator=exact values up to {MOST_PLAYERS} neurons; this network has {self.neurons.n}. "
                "Use gradient, montecarlo or hybrid."
            )
        self.values: list[Values] = []
        self.trainee: Trainee | None = None  # the current task's subnetwork, while it consolidates
        self._frozen: Frozen | None = None  # of the dense network
        self._carried = torch.zeros(self.neurons.n, dtype=torch.float64)  # of the in-run estimator
        self._pairs = 0

    @property
    def neurons(self) -> Neurons:
        return self.specialists.neurons

    @property
    def _n_learned(self) -> int:
        """How many tasks are frozen."""
        return len(self.specialists.subnetworks)

    # ---- the course of a task

    def begin_task(self, task: Task) -> None:
        self._tell_what_fits()
        super().begin_task(task)
        self._carried.zero_()
        self._pairs = 0
        self._hold()

    def _tell_what_fits(self) -> None:
        """Before a task starts: what it will get, and what to do if that is little."""
        n, t = self.neurons.n, self._n_learned
        free = int((~self.specialists.frozen).sum())
        if t == 0:
            of_free, least = self.config.size == "remaining", len(self.neurons.layers)
            log.info("%s", plan(n, self.config.capacity, self.setting.n_tasks, remaining=of_free, least=least))
        if self.config.reuse == "none":
            self._require_plastic_layers()
        if free == 0:
            log.warning(
                "Task %d finds the network full: all %s neurons are frozen, so it reuses them with its own norm state "
                "and head; of the weights between them, %s are still free. A wider network (network.width) or a "
                "smaller learner.capacity leaves room.",
                t + 1,
                f"{n:,}",
                f"{n_weights_outside(self.neurons, self.specialists.read_by()):,}",
            )
        elif free < self._budget_new():
            log.warning(
                "Task %d gets %s new neurons instead of %s: that is all that is left of %s. A wider network "
                "(network.width) or a smaller learner.capacity leaves more.",
                t + 1,
                f"{free:,}",
                f"{self._budget_new():,}",
                f"{n:,}",
            )

    def _budget_new(self) -> int:
        """How many neurons the task asks for."""
        among = int((~self.specialists.frozen).sum()) if self.config.size == "remaining" else self.neurons.n
        return int(self.config.capacity * among)

    def _require_plastic_layers(self) -> None:
        for layer, taken in self.neurons.by_layer(self.specialists.frozen):
            if (free := int((~taken).sum())) < self._tasks_left:
                raise UserError(
                    f"Task {self._n_learned + 1} does not fit: {layer.name} has {free} free neurons for "
                    f"{self._tasks_left} tasks, and learner.reuse=none forbids using frozen ones. Allow reuse, widen "
                    "the network or plan fewer tasks."
                )

    @property
    def _tasks_left(self) -> int:
        return max(1, self.setting.n_tasks - self._n_learned)

    def _barred(self, values: Values) -> Mask:
        """Without reuse: frozen neurons, and of every layer those that later tasks will need."""
        barred = self.specialists.frozen
        for layer, taken in self.neurons.by_layer(self.specialists.frozen):
            mine = int((~taken).sum()) // self._tasks_left
            best = values[layer.neurons].masked_fill(taken, -math.inf).argsort(descending=True, stable=True)
            barred[layer.start + best[mine:]] = True
        return barred

    def _hold(self) -> None:
        """Frozen weights are put back after each step; a layer without any other is not trained at all."""
        read = self.specialists.read_by()
        self._frozen = hold(zip((own.tensor for own in own_weights(self.neurons)), read, strict=True))

    def stage(self, task: Task, index: int) -> Stage | None:
        """A dense phase, then consolidation, within the epochs any other method has."""
        train = self.setting.train
        dense = max(1, min(train.epochs - 1, round(self.config.dense_share * train.epochs)))
        lengths = {0: ("dense", dense, "train"), 1: ("consolidate", max(1, train.epochs - dense), "consolidate")}
        if index not in lengths:
            return None
        name, epochs, phase = lengths[index]
        return Stage(name, dataclasses.replace(train, epochs=epochs), phase)

    def end_stage(self, task: Task, stage: Stage) -> None:
        if stage.name == "dense":
            with self.phase("value"):
                self._choose(task)
        else:
            with self.phase("certify"):
                assert self.trainee is not None
                self.specialists.adopt(self.trainee.written_back(), self.setting.seed + task.id)
                self.trainee, self._frozen = None, None

    def end_task(self, task: Task) -> None:
        if self.setting.scenario == "cil":
            with self.phase("statistics"):
                self.specialists.add_statistics(self._measure(task))

    def _choose(self, task: Task) -> None:
        """Value the neurons on the task's validation images and keep the best."""
        images = self.setting.examples(task.val)
        labels = task.val.labels.to(self.setting.device) - task.block.start  # within the task's head
        shared = self.config.estimator in ("montecarlo", "truncated", "tmab", "hybrid", "exact", "regression")
        game = NeuronGame(self.network, images, labels, self.neurons, forward=self._newest, share_prefixes=shared)
        values = self._value(game, derived_seed(self.setting.seed, "valuation", task.id))
        mask = select(
            values,
            self.neurons.layer_index,
            max(len(self.neurons.layers), self._budget_new()),
            self.config.layer_share,
            free=self.specialists.frozen if self.config.reuse == "free" else None,
            barred=self._barred(values) if self.config.reuse == "none" else None,
            largest=int(self.config.largest * self.neurons.n),
        )
        self.values.append(values)
        self.trainee = Trainee(self.specialists, subnetwork_of(self.network.body, self.neurons, mask))

    def _value(self, game: NeuronGame, seed: int) -> Values:
        name, draws = self.config.estimator, self.config.draws
        if name == IN_RUN:
            values = self._carried / max(1, self._pairs)
            told = "Not certified: values carried while training hold for the network of that time."
            ended = f"{self._pairs} pairs of gradients on training batches"
            ends = game.everyone, game.no_one
            self.valuations.append(told_of(name, values, ends, game.evaluations, ended, told))
            return values
        if name in SCORES:
            values, told = SCORES[name](game, seed), "Not certified: a simple score is no Shapley value."
            self.valuations.append(told_of(name, values, None, game.evaluations, "every neuron scored", told))
            return values
        settings: dict[str, Any] = {}
        if name == "gradient":
            settings = {"draws": draws or 24, "minibatch": 16}  # more pairs of gates beat more images
        elif name == "hybrid":
            settings = {"draws": draws or 24}
        elif name in ("montecarlo", "truncated", "tmab"):
            settings = {"permutations": draws or 32}
        if name == "tmab":
            settings["burn_in"] = max(2, min(30, settings["permutations"] // 2))
        for key in ("floor", "confidence"):
            if (value := getattr(self.config, key)) is not None:
                settings[key] = value
        if ESTIMATORS[name].contest:
            settings |= self._contest()
        valuation = estimate(game, name, seed=seed, progress=self._tell_of_values, **settings)
        if ESTIMATORS[name].contest:
            log.info("%s Every layer's own share of the budget is a further rule on top.", valuation.certificate)
        self.valuations.append(valuation.told)
        return valuation.values

    def _contest(self) -> dict[str, Any]:
        """The cut that `select` will make: how many places there are, and which neurons compete for them."""
        free = ~self.specialists.frozen
        candidates = free if self.config.reuse != "counted" and bool(free.any()) else None  # frozen ones come along
        n = self.neurons.n if candidates is None else int(candidates.sum())
        return {"k": min(n, max(len(self.neurons.layers), self._budget_new())), "candidates": candidates}

    def _tell_of_values(self, what: str, done: float, total: float) -> None:
        self.tell(f"value: {what}", done, total)

    # ---- one step

    def parameters(self, stage: Stage) -> Iterable[nn.Parameter]:
        moving = [self.trainee.small] if self.trainee is not None else [self.network.body, self.network.heads[-1]]
        return [p for module in moving for p in module.parameters() if p.requires_grad]

    def set_training(self, training: bool, stage: Stage) -> None:
        self.network.train(training and stage.name == "dense")
        if self.trainee is not None:
            self.trainee.small.train(training)

    def work(self, batch: Batch) -> str:
        return "with values" if self._carries(batch) else ""

    def task_logits(self, images: Images) -> Logits:
        """Of the current task's classes only, in TIL and CIL."""
        logits: Logits = self.trainee.small(images) if self.trainee is not None else self._newest(images)
        return logits

    def _newest(self, images: Images) -> Logits:
        """The whole network with the current task's head."""
        logits: Logits = self.network(images, len(self.blocks) - 1)
        return logits

    def _offset(self) -> int:
        return self.blocks[-1].start

    def loss(self, batch: Batch) -> Tensor:
        logits = self.task_logits(batch.images).float()
        smoothing = self.setting.train.smoothing
        return F.cross_entropy(logits, batch.labels - self._offset(), label_smoothing=smoothing)

    def step(self, batch: Batch, optimizer: torch.optim.Optimizer) -> Tensor:
        """One update that leaves every frozen weight bit-identical."""
        with self.setting.autocast():
            loss = self.loss(batch)
        told = descend(loss, optimizer, batch.stage.settings.clip_norm)
        frozen = self.trainee.frozen if self.trainee is not None else self._frozen
        if frozen is not None:
            frozen.restore()
        if self._carries(batch):
            self._carry(batch)
        return told

    def _carries(self, batch: Batch) -> bool:
        """In-run: some steps of every dense epoch, since any of them may turn out to be the best."""
        every = max(1, batch.n_steps // IN_RUN_PAIRS)
        return self.config.estimator == IN_RUN and batch.stage.name == "dense" and batch.step % every == 0

    def _carry(self, batch: Batch) -> None:
        """One pair of gate gradients on this step's own images."""
        labels = batch.labels - self.blocks[-1].start
        forward = self._newest
        game = NeuronGame(self.network, batch.images, labels, self.neurons, forward=forward, share_prefixes=False)
        gates = gates_of_pair(game.n, GradientSettings(), derived_seed(batch.seed, IN_RUN), self._pairs)
        self._carried += game.gradient(gates)[0].mean(0)
        self._pairs += 1

    # ---- prediction

    def logits(self, images: Images, block: range | None) -> Logits:
        if block is None and self._n_learned:
            return self.specialists.logits(images, None, self.config.rule)
        if block is None or block not in self.blocks or self.blocks.index(block) >= self._n_learned:
            return super().logits(images, block)
        return self.specialists.logits(images, self.blocks.index(block))

    def put_in_place(self, t: int) -> None:
        load_norm(self.network.body, self.specialists.subnetworks[t].norm)

    def forget(self, t: int) -> None:
        """Remove task t, and free what only it used."""
        self.specialists.forget(t, generator(self.setting.seed, "forgotten", t, self._n_learned))
        for kept in (self.blocks, self.values, self.valuations):
            del kept[t]
        starts = [sum(len(b) for b in self.blocks[:s]) for s in range(len(self.blocks))]
        self.blocks = [range(start, start + len(b)) for start, b in zip(starts, self.blocks, strict=True)]
        self._hold()

    # ---- what is kept

    def capacity(self) -> dict[str, float]:
        return self.specialists.capacity()

    def bytes_kept(self, n_classes: int) -> int:
        return self.specialists.bytes_kept(self.setting.n_tasks, n_classes, self.setting.scenario == "cil")

    def state_dict(self) -> State:
        return {
            "blocks": [[b.start, b.stop] for b in self.blocks],
            **self.specialists.state(),
            "values": list(self.values),
            "valuations": list(self.valuations),
            "carried": self._carried,
            "pairs": self._pairs,
            **(self.trainee.state() if self.trainee is not None else {"chosen": None, "small": None}),
        }

    def load_state_dict(self, state: State) -> None:
        self.blocks = [range(start, stop) for start, stop in state["blocks"]]
        self.specialists.load(state)
        self.values = list(state["values"])
        known = list(state.get("valuations", []))  # older checkpoints have none, and models keep none
        self.valuations = [None] * (len(self.values) - len(known)) + known
        self._carried, self._pairs = state["carried"].clone(), state["pairs"]
        if state["chosen"] is None:
            self.trainee = None
            self._hold()
        else:
            chosen = Subnetwork.from_state(state["chosen"], self.setting.device)
            self.trainee = self.trainee or Trainee(self.specialists, chosen)
            self.trainee.load(chosen, state["small"])

    @torch.no_grad()
    def _measure(self, task: Task) -> Statistics:
        """What is kept for CIL of the task's training images, by its own specialist and all before it."""
        rng = generator(self.setting.seed, "measured images", task.id)
        rows = sample_of_all(task.train.labels, torch.randperm(len(task.train), generator=rng), N_MEASURED)
        chunks = rows.split(EVALUATION_BATCH)
        images = self.setting.examples(task.train)
        features: list[list[Tensor]] = [[] for _ in self.specialists.subnetworks]
        logits = []
        for i, part in enumerate(images.batches(chunks)):
            self.tell("statistics", i, len(chunks))
            for t, of_task in enumerate(features):
                of_task.append(self.specialists.specialist(t).features(part))
            logits.append(self.specialists.logits(part, self._n_learned - 1))
        self.tell("statistics", len(chunks), len(chunks))
        labels = task.train.labels[rows].to(self.setting.device) - task.block.start
        with self.counted(f"statistics {task.id}", len(labels)):
            joined = [torch.cat(parts) for parts in features]
            return measure(labels, joined, torch.cat(logits), len(task.block))


def sample_of_all(labels: Labels, order: Indices, n: int) -> Indices:
    """The first ``n`` rows of an order, and the first of every class that is not among them."""
    first: dict[int, int] = {}
    for place, label in enumerate(labels[order].tolist()):
        first.setdefault(label, place)
    late = [place for place in first.values() if place >= n]
    return torch.cat([order[:n], order[torch.tensor(late, dtype=torch.long)]])

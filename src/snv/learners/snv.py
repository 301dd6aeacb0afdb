"""Shapley Neuron Values: train, value every neuron, keep the few the task needs, consolidate them, freeze them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from snv.compact import Compact, Link, compact, write_back
from snv.data.task import Task
from snv.errors import UserError
from snv.files import State
from snv.learners.base import Learner, Setting
from snv.masks import Frozen, coverage_budget, frozen_rows, select
from snv.neurons import find_neurons
from snv.shapes import Images, Labels, Logits, Mask, Values
from snv.subnetwork import Certificate, Subnetwork, certify, load_norm, norm_state
from snv.training.loop import EVALUATION_BATCH, descend
from snv.training.stage import Batch, Stage
from snv.valuation.estimate import estimate
from snv.valuation.neuron_game import NeuronGame


@dataclass(frozen=True)
class SNVConfig:
    """Every switch of the method; the comment says where its default comes from."""

    capacity: float | None = None  # c: share of neurons one task may keep (the paper: 0.1); None: 1/T, an even share
    size: Literal["top-k", "coverage"] = "top-k"  # a fixed number, or the fewest that hold `coverage` of the value
    coverage: float = 0.9
    reuse: Literal["free", "counted"] = "free"  # frozen neurons come along at no cost, or count like new ones
    layer_share: float = 0.5  # of the budget, reserved for each layer's own best: half was a good start
    dense_share: float = 0.3  # of the epochs before neurons are valued; the rest trains the subnetwork
    estimator: str = "gradient"
    draws: int = 24  # gradients of the estimator
    distil: float = 0.0  # weight of the dense network's own logits while consolidating

    def __post_init__(self) -> None:
        for name in ("capacity", "coverage", "dense_share"):
            if getattr(self, name) is not None and not 0 < getattr(self, name) <= 1:
                raise UserError(f"learner.{name} is a share, so it lies in (0, 1]; got {getattr(self, name)}.")
        if not 0 <= self.layer_share <= 1:
            raise UserError(f"learner.layer_share is a share, so it lies in [0, 1]; got {self.layer_share}.")


class SNV(Learner):
    """Every task gets a subnetwork of whole neurons, trained, frozen and certified; nothing else is kept."""

    title = "SNV (Shapley Neuron Values)"
    paper = "Shapley Neuron Values for Continual Learning"
    memory = "per task: 1 bit, 1 constant and 4 norm entries per neuron"
    Config: ClassVar[type] = SNVConfig

    def __init__(self, setting: Setting, config: Any = None) -> None:
        super().__init__(setting, config)
        self.body = setting.network.body
        example = torch.zeros(2, *setting.preprocess.shape, device=setting.device)
        self.neurons = find_neurons(self.body, example, include=["*"])
        self.frozen: Mask = torch.zeros(self.neurons.n, dtype=torch.bool)  # B_t
        self.subnetworks: list[Subnetwork] = []
        self.values: list[Values] = []
        self.certificates: list[Certificate] = []
        self.chosen: Subnetwork | None = None  # the current task's, while it consolidates
        self._held: Frozen | None = None
        self._small: Compact | None = None
        self._links: list[Link] = []
        self._cut_out: dict[int, Compact] = {}

    # ---- the course of a task

    def begin_task(self, task: Task) -> None:
        super().begin_task(task)
        self._held = frozen_rows(self.neurons, self.frozen)

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
            self._choose(task)
        else:
            self._freeze()

    def _choose(self, task: Task) -> None:
        """Value the neurons on the task's validation images and keep the best."""
        images, labels = self._validation_data(task)
        game = NeuronGame(
            self.network,
            images,
            labels,
            self.neurons,
            forward=self._newest,
            share_prefixes=self.config.estimator != "gradient",
        )
        settings = {"draws": self.config.draws} if self.config.estimator in ("gradient", "hybrid") else {}
        values = estimate(game, self.config.estimator, seed=self.setting.seed + task.id, **settings).values
        mask = select(values, self.neurons.layer_index, self._budget(values), self.config.layer_share, self._free())
        self.values.append(values)
        self.chosen = Subnetwork(mask, game.means.detach().clone(), norm_state(self.body))
        self._cut()

    def _budget(self, values: Values) -> int:
        """How many neurons the task may keep (new ones only, if reuse is free)."""
        share = self.config.capacity or 1 / self.setting.n_tasks
        covering = self.config.size == "coverage"
        wanted = coverage_budget(values, self.config.coverage) if covering else int(share * self.neurons.n)
        return max(len(self.neurons.layers), wanted)

    def _free(self) -> Mask | None:
        return self.frozen if self.config.reuse == "free" else None

    def _cut(self) -> None:
        """The chosen subnetwork as a small module to be trained; its frozen rows are held."""
        assert self.chosen is not None
        shape = self.setting.preprocess.shape
        arguments = (self.neurons, self.chosen.mask, self.chosen.means, shape)
        self._small, self._links = compact(self.body, self.network.head(-1), *arguments)
        owners = {layer.module: layer.start for layer in self.neurons.layers}
        self._held = Frozen(
            (tensor, self.frozen[owners[link.dense] + link.rows])
            for link in self._links
            if link.dense in owners
            for tensor in link.trained
        )

    def _freeze(self) -> None:
        """Back into the dense network, frozen and certified."""
        assert self.chosen is not None
        write_back(self._links)
        self.subnetworks.append(dataclasses.replace(self.chosen, norm=norm_state(self.body)))
        self.frozen = self.frozen | self.chosen.mask
        self.chosen, self._small, self._links, self._held = None, None, [], None
        self._cut_out.clear()
        self.certificates.append(self.certify(len(self.subnetworks) - 1))
        self.verify()

    # ---- one step

    def parameters(self, stage: Stage) -> Iterable[nn.Parameter]:
        if stage.name == "dense":
            return [*self.body.parameters(), *self.network.heads[-1].parameters()]
        assert self._small is not None
        return [p for p in self._small.parameters() if p.requires_grad]

    def set_training(self, training: bool, stage: Stage) -> None:
        self.network.train(training and stage.name == "dense")
        if self._small is not None:
            self._small.train(training)

    def task_logits(self, images: Images) -> Logits:
        """Of the current task only, in TIL and CIL: other tasks' heads take no part."""
        logits: Logits = (self._small or self._newest)(images)
        return logits

    def _newest(self, images: Images) -> Logits:
        """The whole network with the current task's head."""
        return self.network.classify(self.body(images), len(self.blocks) - 1)

    def task_losses(self, logits: Logits, labels: Labels) -> Tensor:
        return F.cross_entropy(logits.float(), labels - self.blocks[-1].start, reduction="none")

    def n_right(self, logits: Logits, labels: Labels) -> Tensor:
        return (logits.argmax(1) + self.blocks[-1].start == labels).sum()

    def loss(self, batch: Batch) -> Tensor:
        logits = self.task_logits(batch.images)
        loss = self.task_losses(logits, batch.labels).mean()
        if self._small is None or self.config.distil == 0:
            return loss
        with torch.no_grad():
            teacher = self._newest(batch.images)
        soft = F.kl_div(logits.log_softmax(1), teacher.log_softmax(1), reduction="batchmean", log_target=True)
        total: Tensor = loss + self.config.distil * soft
        return total

    def step(self, batch: Batch, optimizer: torch.optim.Optimizer) -> Tensor:
        """One update that leaves every frozen weight bit-identical."""
        with self.setting.autocast():
            loss = self.loss(batch)
        told = descend(loss, optimizer, batch.stage.settings.clip_norm)
        if self._held is not None:
            self._held.restore()
        return told

    # ---- prediction and proof

    def logits(self, images: Images, block: range | None) -> Logits:
        if block is None:
            return torch.cat([self.specialist(t)(images) for t in range(len(self.subnetworks))], dim=1)
        if block in self.blocks and self.blocks.index(block) < len(self.subnetworks):
            found: Logits = self.specialist(self.blocks.index(block))(images)
            return found
        return super().logits(images, block)

    def specialist(self, t: int) -> Compact:
        """Task t's subnetwork, cut out of the dense network as it is now."""
        if t not in self._cut_out:
            before, subnetwork = norm_state(self.body), self.subnetworks[t]
            load_norm(self.body, subnetwork.norm)
            arguments = (self.neurons, subnetwork.mask, subnetwork.means, self.setting.preprocess.shape)
            small, _ = compact(self.body, self.network.head(t), *arguments)
            load_norm(self.body, before)
            self._cut_out[t] = small.eval()
        return self._cut_out[t]

    def certify(self, t: int) -> Certificate:
        """The fingerprints of task t as it is now."""
        arguments = (self.neurons, self.subnetworks[t], self.setting.preprocess.shape, self.setting.seed + t)
        return certify(self.body, self.network.head(t), *arguments)

    def verify(self) -> None:
        """Stop if any earlier task changed by a single bit."""
        for t, issued in enumerate(self.certificates):
            now = self.certify(t)
            if now.tensors != issued.tensors or (now.threads == issued.threads and now.logits != issued.logits):
                raise RuntimeError(
                    f"Task {t + 1} is not what it was when it was frozen (certificate {issued}, now {now}). Nothing "
                    "was saved after the last checkpoint, which is intact; please report this."
                )

    def capacity(self) -> dict[str, float]:
        counts = self.neurons.parameter_counts
        total = sum(p.numel() for p in self.body.parameters())
        outside = total - int(counts.sum())
        used = int(counts[self.frozen].sum()) + outside
        return {"parameters": used / total, "neurons": float(self.frozen.double().mean())}

    # ---- what is kept

    def state_dict(self) -> State:
        return super().state_dict() | {
            "frozen": self.frozen,
            "subnetworks": [subnetwork.state() for subnetwork in self.subnetworks],
            "values": list(self.values),
            "certificates": [dataclasses.asdict(certificate) for certificate in self.certificates],
            "chosen": self.chosen.state() if self.chosen else None,
            "small": dict(self._small.state_dict()) if self._small else None,
        }

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict(state)
        self.frozen = state["frozen"]
        self.subnetworks = [Subnetwork.from_state(kept) for kept in state["subnetworks"]]
        self.values = list(state["values"])
        self.certificates = [Certificate(**kept) for kept in state["certificates"]]
        self._cut_out.clear()
        if state["chosen"] is None:
            self.chosen, self._small, self._links = None, None, []
            self._held = frozen_rows(self.neurons, self.frozen)
        else:
            self.chosen = Subnetwork.from_state(state["chosen"])
            if self._small is None:
                self._cut()
            assert self._small is not None
            self._small.load_state_dict(state["small"])

    @torch.no_grad()
    def _validation_data(self, task: Task) -> tuple[Images, Labels]:
        """The task's validation images, and their labels within its head."""
        split, preprocess = task.val, self.setting.preprocess
        channels_last = self.setting.train.channels_last
        batches = list(split.batches(torch.arange(len(split)).split(EVALUATION_BATCH)))
        images = [preprocess(pixels, self.setting.device, None, channels_last) for pixels, _ in batches]
        labels = torch.cat([labels for _, labels in batches]).to(self.setting.device)
        return torch.cat(images), labels - task.block.start

"""Algorithm 1 of "Shapley Neuron Values for Continual Learning" as printed: train, value, keep the top ⌊cN⌋, freeze.

Known defects, kept here and mended in `snv`: the bandit's active set always holds the k-th neuron, so it needs a cap;
after one permutation every σ is 0 and it would be empty, so it needs a burn-in. Skipping while V(S) ≤ τ saves nothing
and averages over large coalitions only. Norm layers and plastic neurons move on, and old answers with them. A head is
never trained against the classes of other tasks, so in CIL the logits of two heads are not comparable.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from snv.components import Frozen
from snv.data import Task
from snv.errors import UserError
from snv.files import State
from snv.learners.base import Learner
from snv.learners.card import Card
from snv.learners.grids import SNV_SPACE, paper_presets
from snv.neurons import NeuronTable, find_neurons, own_weights
from snv.seeding import derived_seed, generator
from snv.shapes import Mask, Values
from snv.shapley import TMABSettings, Valuation, as_printed
from snv.training import Batch, Setting
from snv.valuation import NeuronGame


@dataclass(frozen=True)
class SNVPaperConfig:
    """The paper's own symbols, and what its loop needs to end."""

    capacity: float = 0.1  # c: the paper's for CIFAR-100 and Tiny-ImageNet; 0.2 for ImageNet-1k
    floor: float = 0.05  # τ, a validation accuracy: the paper's
    confidence: float = 0.95  # α: the paper's
    permutations: int = 32  # ours, since the paper names none: as many as other estimators of `snv` draw
    burn_in: int = 8  # ours: permutations before the first look at σ, of which two observations say little
    cumulative: bool = True  # Eq. 7; False, only the newest task stays frozen: an experiment of the paper
    released: float = 0.0  # share of frozen weights let go at every task: an experiment of the paper (0.01 to 0.05)

    def __post_init__(self) -> None:
        for name, share in {"capacity": self.capacity, "floor": self.floor, "released": self.released}.items():
            if not 0 <= share <= 1 or (name, share) == ("capacity", 0):
                raise UserError(f"learner.{name} is a share: from 0 (capacity: above it) to 1; got {share}.")
        self.bandit()  # checks the rest

    def bandit(self) -> TMABSettings:
        """What EstimateSNV is told: the top ⌊cN⌋, when to end, τ, α, and when to look first."""
        k, alpha = float(self.capacity), self.confidence
        return TMABSettings(k, self.permutations, self.floor, confidence=alpha, burn_in=self.burn_in, preset="paper")


class SNVPaper(Learner[SNVPaperConfig]):
    """One network for all tasks, of which the neurons chosen so far keep their weights."""

    card = Card(
        title="SNV as printed",
        paper="Shapley Neuron Values for Continual Learning, Algorithm 1",
        page="snv_paper",
        memory="per task: 1 bit and 1 number per neuron",
        parallel=True,
        alike=True,
        quick=False,  # TMAB on validation images: minutes of valuation
        forgets="its heads are never trained against each other: whichever has the larger logits answers every image.",
        space=SNV_SPACE,
        idle_first=("learner.capacity", "learner.floor", "learner.confidence"),
        presets=paper_presets(
            1e-2,
            {"learner.capacity": 0.1, "learner.floor": 0.05, "learner.confidence": 0.95},
            imagenet={"learner.capacity": 0.2},
        ),
        adds_up=True,
    )
    Config: ClassVar[type] = SNVPaperConfig

    def __init__(self, setting: Setting, config: SNVPaperConfig | None = None) -> None:
        super().__init__(setting, config)
        example = torch.zeros(2, *setting.preprocess.shape, device=setting.device)
        self.neurons = find_neurons(setting.network.body, example, include=["*"])
        self.frozen: Mask = torch.zeros(self.neurons.n, dtype=torch.bool)  # B_t
        self.masks: list[Mask] = []  # S_1, S_2, …
        self.values: list[Values] = []  # φ̂ of each task
        self._held = Frozen([])

    def begin_task(self, task: Task) -> None:
        super().begin_task(task)
        self._hold()

    def _hold(self) -> None:
        """M_t of Eq. 8: whole rows of frozen neurons, but for a ``released`` share of their weights."""
        rows = [(owned.tensor, self.frozen[owned.owner]) for owned in own_weights(self.neurons)]
        self._held = Frozen(rows, self.config.released, generator(self.setting.seed, "released", len(self.masks)))

    def scope(self) -> range:
        """The loss compares the classes of the current task, in TIL and CIL; other heads get no gradient."""
        return self.blocks[-1]

    def step(self, batch: Batch, optimizer: torch.optim.Optimizer) -> Tensor:
        loss = super().step(batch, optimizer)
        self._held.restore()  # Eq. 9, exactly
        return loss

    def end_task(self, task: Task) -> None:
        with self.reporter.phase("value"):
            valuation = self._estimate_snv(task)
        mask = torch.zeros_like(self.frozen)
        mask[valuation.top_k()] = True  # S_t, Eq. 1
        self.frozen = self.frozen | mask if self.config.cumulative else mask  # B_t, Eq. 7
        self.masks.append(mask)
        self.values.append(valuation.values)
        self.valuations.append(valuation.account)

    def _estimate_snv(self, task: Task) -> Valuation:
        """V(S) is the accuracy on the task's validation images with neurons outside S at their means."""
        images, labels = self.setting.examples(task.val), task.val.labels.to(self.setting.device) - task.block.start
        logits = partial(self.logits, block=task.block)
        game = NeuronGame(self.network, images, labels, self.neurons, "accuracy", forward=logits)
        return as_printed(game, self.config.bandit(), seed=derived_seed(self.setting.seed, "valuation", task.id))

    def capacity(self) -> dict[str, float]:
        in_use = torch.stack([self.frozen, *self.masks]).any(0)
        owned, total = self.neurons.parameter_counts, sum(p.numel() for p in self.network.body.parameters())
        return {"parameters": int(owned[in_use].sum()) / total, "neurons": float(in_use.double().mean())}

    def bytes_kept(self, n_classes: int) -> int:
        return self.neurons.n * (1 + 9 * self.setting.n_tasks)

    def neuron_table(self) -> NeuronTable:
        return NeuronTable.of(self.neurons, self.values, self.masks)

    def state_dict(self) -> State:
        own = {"masks": list(self.masks), "values": list(self.values), "valuations": list(self.valuations)}
        return super().state_dict() | {"frozen": self.frozen} | own

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict(state)
        self.frozen, self.valuations = state["frozen"], list(state["valuations"])
        self.masks, self.values = list(state["masks"]), list(state["values"])
        self._hold()

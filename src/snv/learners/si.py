"""Synaptic Intelligence (Zenke, Poole and Ganguli, 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from snv.components import HOLDS_WEIGHTS_ONLY, Weights, copied, held, restored, weighted_distance
from snv.data import Task
from snv.errors import UserError
from snv.files import State
from snv.learners.base import Learner
from snv.learners.card import Card
from snv.learners.checks import check_range
from snv.learners.grids import RATES, paper_presets
from snv.networks import bytes_of
from snv.training import Batch, Setting, differentiate


@dataclass(frozen=True)
class SIConfig:
    """How strongly weights are held, and how their importance is scaled."""

    strength: float = 0.5  # c: the paper's
    damping: float = 1.0  # ξ: the paper's; far above usual squared movements, so Ω is nearly the path integral itself
    norm_layers: bool = True  # whether scales and shifts of norm layers are held too

    def __post_init__(self) -> None:
        check_range(self, "strength", 0, advice="Try 0.5, or 0 for plain SGD.")
        if not 0 < self.damping < float("inf"):
            raise UserError(f"learner.damping keeps a division finite, so it is positive; got {self.damping}. Try 1.")


def importance(path: Tensor, start: Tensor, end: Tensor, damping: float) -> Tensor:
    """max(0, w) / ((θ_end − θ_start)² + ξ): loss decrease per squared movement; negative noise counts as none."""
    return path.clamp(min=0) / ((end - start) ** 2 + damping)


class SI(Learner[SIConfig]):
    """CE + c Σ_j Ω_j (θ_j − θ*_j)², with Ω_j what weight j contributed to the fall of the loss in earlier tasks.

    The anchor θ* is where the weights stand when a task begins, so it serves as θ_start too.
    """

    card = Card(
        title="SI (synaptic intelligence)",
        paper="Zenke, Poole and Ganguli, 2017",
        page="si",
        memory="1 number per weight; 3 while it trains",
        parallel=True,
        forgets=HOLDS_WEIGHTS_ONLY,
        space={"train.lr": RATES, "learner.strength": (0.3, 0.5, 0.7, 1), "learner.damping": (0.9, 1)},
        idle_first=("learner.strength", "learner.damping"),
        presets=paper_presets(1e-2, {"learner.strength": 0.5, "learner.damping": 1}),
        adds_up=True,
    )
    Config: ClassVar[type] = SIConfig

    def __init__(self, setting: Setting, config: SIConfig | None = None) -> None:
        super().__init__(setting, config)
        self.omega: Weights = {}  # Ω
        self.start: Weights = {}  # θ at the start of the task: θ*
        self.path: Weights = {}  # w = −Σ_steps g ⊙ Δθ

    def held(self) -> dict[str, nn.Parameter]:
        return held(self.network, heads=self.setting.scenario == "cil", norm_layers=self.config.norm_layers)

    def begin_task(self, task: Task) -> None:
        super().begin_task(task)
        self.start = copied(self.held())
        self.path = {name: torch.zeros_like(x) for name, x in self.start.items()}

    def step(self, batch: Batch, optimizer: torch.optim.Optimizer) -> Tensor:
        """One update, w ← w − g ⊙ Δθ with g = ∇CE alone: the penalty's gradient would let importance feed on itself."""
        optimizer.zero_grad()
        loss = differentiate(self.losses(batch), optimizer)
        parameters = self.held()
        gradients = {name: p.grad.clone() for name, p in parameters.items() if p.grad is not None}  # g
        if self.omega and self.config.strength > 0:
            penalty = self.config.strength * weighted_distance(parameters, self.start, self.omega)
            penalty.backward()
            loss = loss + penalty.detach()
        if (clip_norm := batch.stage.settings.clip_norm) is not None:
            nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], clip_norm)
        moves = [parameters[name].detach().clone() for name in gradients]
        optimizer.step()
        optimizer.zero_grad()
        torch._foreach_sub_(moves, [parameters[name].detach() for name in gradients])  # −Δθ
        torch._foreach_addcmul_([self.path[name] for name in gradients], list(gradients.values()), moves)
        return loss

    def end_task(self, task: Task) -> None:
        """Ω ← Ω + max(0, w) / ((θ_end − θ_start)² + ξ); the path and its start are done with."""
        for name, end in copied(self.held()).items():
            new = importance(self.path[name], self.start[name], end, self.config.damping)
            self.omega[name] = self.omega[name] + new if name in self.omega else new
        self.start, self.path = {}, {}

    def bytes_kept(self, n_classes: int) -> int:
        return 3 * bytes_of(self.network)

    def state_dict(self) -> State:
        own = {"omega": dict(self.omega), "start": dict(self.start), "path": dict(self.path)}
        return super().state_dict() | own

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict(state)
        self.omega, self.start, self.path = (restored(state[key], self.network) for key in ("omega", "start", "path"))

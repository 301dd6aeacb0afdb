"""Hard attention to the task (Serrà et al., 2018): each task learns a gate per neuron, steeper as an epoch goes on."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from snv.files import State
from snv.seeding import generator
from snv.shapes import Values

LARGEST = 6.0
"""Embeddings are kept within ± this, so that a gate can still change its mind."""
CLIP = 50.0
"""Of s·e, so that its cosh stays finite."""


def steepness(step: int, n_steps: int, steepest: float) -> float:
    """s: linearly from 1/s_max at the first step of an epoch to s_max at its last."""
    return 1 / steepest + (steepest - 1 / steepest) * step / max(1, n_steps - 1)


def compensation(embedding: Values, s: float, steepest: float) -> Values:
    """(s_max/s) (cosh(s·e) + 1) / (cosh(e) + 1): the gradient of e as if its gate were not steep."""
    return steepest / s * ((s * embedding).clamp(-CLIP, CLIP).cosh() + 1) / (embedding.cosh() + 1)


def soft_gates(embedding: Values, s: float, steepest: float) -> Values:
    """g = σ(s·e), with a gradient that is multiplied by `compensation`."""
    gates: Values = _SoftGates.apply(embedding, s, steepest)  # type: ignore[no-untyped-call]
    return gates


class _SoftGates(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, embedding: Tensor, s: float, steepest: float) -> Tensor:
        gates = torch.sigmoid(s * embedding)
        ctx.save_for_backward(embedding, gates)
        ctx.s, ctx.steepest = s, steepest
        return gates

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None, None]:
        embedding, gates = ctx.saved_tensors
        slope = slopes[0] * (1 - gates) * gates * ctx.s  # in the order of PyTorch's own: open gates are 1 − 0 soon
        return slope * compensation(embedding, ctx.s, ctx.steepest), None, None


def settled_gates(embedding: Values, steepest: float, hard: bool) -> Values:
    """The gates a task answers with: 1[e > 0], or σ(s_max·e)."""
    return (embedding > 0).to(embedding) if hard else torch.sigmoid(steepest * embedding)


def new_use(gates: Values, used: Values) -> Tensor:
    """Σ g(1 − M) / Σ (1 − M): how much of what no earlier task uses is taken; 0 where nothing is left."""
    free = 1 - used
    return (gates * free).sum() / free.sum().clamp(min=torch.finfo(free.dtype).tiny)


class TaskGates:
    """A gate per neuron for every task, all layers in a row: those of earlier tasks stay, one task's are learned."""

    def __init__(
        self, sizes: list[int], steepest: float, hard: bool, start: float, seed: int, device: torch.device
    ) -> None:
        """``start`` is the mean of the embeddings a task starts from: with 0 half of its gates are open at first."""
        self.sizes, self.steepest, self.hard, self.start, self.seed = sizes, steepest, hard, start, seed
        self.kept: list[Tensor] = []  # e of earlier tasks
        self.embedding = nn.Parameter(self._drawn(0).to(device))  # e of the task under way, or of the next to begin

    def _drawn(self, t: int) -> Values:
        """What task t starts from: N(start, 1)."""
        return self.start + torch.randn(sum(self.sizes), generator=generator(self.seed, "gates", t))

    def soft(self, step: int, n_steps: int) -> Values:
        """The gates a step of the task under way learns with."""
        return soft_gates(self.embedding, steepness(step, n_steps, self.steepest), self.steepest)

    @torch.no_grad()
    def settled(self, t: int) -> Values:
        """The gates with which task t answers: for good, as they are now, or as it will start."""
        embedding = [*self.kept, self.embedding][t] if t <= len(self.kept) else self._drawn(t).to(self.embedding)
        return settled_gates(embedding.detach(), self.steepest, self.hard)

    @torch.no_grad()
    def used(self) -> Values:
        """M: the largest gate that each neuron has in an earlier task."""
        gates = [self.settled(t) for t in range(len(self.kept))]
        return torch.stack([torch.zeros_like(self.embedding), *gates]).amax(0)

    @torch.no_grad()
    def keep(self) -> None:
        """The task under way is over; the next one starts from gates of its own."""
        self.kept.append(self.embedding.detach().clone())
        self.embedding.copy_(self._drawn(len(self.kept)))

    @torch.no_grad()
    def clip(self) -> None:
        self.embedding.clamp_(-LARGEST, LARGEST)

    def by_layer(self, gates: Values) -> tuple[Tensor, ...]:
        layers: tuple[Tensor, ...] = gates.split(self.sizes)
        return layers

    def state_dict(self) -> State:
        return {"kept": list(self.kept), "embedding": self.embedding.detach()}

    @torch.no_grad()
    def load_state_dict(self, state: State) -> None:
        self.kept = [e.to(self.embedding) for e in state["kept"]]
        self.embedding.copy_(state["embedding"])

"""Winning Subnetworks (Kang et al., 2022): every task picks its weights by learned scores; weights once used freeze."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Bool, Int8
from torch import Tensor, nn
from torch.func import functional_call

from snv.components import Frozen
from snv.data import Task
from snv.errors import UserError
from snv.files import State
from snv.learners.base import Learner
from snv.learners.card import Card
from snv.learners.grids import LOW_RATES, paper_presets
from snv.networks import MAPS
from snv.seeding import generator
from snv.shapes import Features, Images, Logits, Mask, Values
from snv.training import Batch, Setting, Stage


@dataclass(frozen=True)
class WSNConfig:
    """Learning rate (1e-3 in both papers), batch size and epochs are those of training."""

    capacity: float = 0.3  # c: share of each layer's weights a task uses; the best of 0.03 … 0.5 in the authors' re-run
    norm: Literal["per task", "batch"] = "per task"  # "batch": the original's, statistics of the test batch, no affine

    def __post_init__(self) -> None:
        if not 0 < self.capacity <= 1:
            raise UserError(
                f"learner.capacity is the share of a layer's weights one task uses, so it lies in (0, 1]; "
                f"got {self.capacity}. Try 0.3."
            )


# ---- the method


def winners(scores: Tensor, capacity: float) -> Bool[Tensor, ...]:
    """m = 1[|s| ≥ v] within one layer, v the (1 + round((1 − c)(n − 1)))-th smallest of its n values |s|."""
    sizes = scores.detach().abs()
    return sizes >= nth_smallest(sizes.flatten(), round((1 - capacity) * (sizes.numel() - 1)))


def nth_smallest(values: Values, n: int) -> Tensor:
    """The value with ``n`` others before it in increasing order."""
    if values.device.type == "cpu":  # six times as fast as kthvalue
        return torch.from_numpy(np.partition(values.numpy(), n))[n]
    return values.kthvalue(n + 1).values


class Winning(torch.autograd.Function):
    """ŵ = w ⊙ m, straight through: ∂L/∂w = ∂L/∂ŵ ⊙ m ⊙ (1 − M), ∂L/∂s = ∂L/∂ŵ ⊙ w ⊙ sign(s) for every weight."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, scores: Tensor, mask: Tensor, free: Tensor) -> Tensor:
        ctx.save_for_backward(weight, scores, mask & free)
        return selected(weight, mask)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        weight, scores, moving = ctx.saved_tensors
        return gradients[0] * moving, scores.sign().mul_(weight).mul_(gradients[0]), None, None


def selected(weight: Tensor, mask: Tensor) -> Tensor:
    """w where m, else 0 (and never −0, whatever becomes of the weight)."""
    return torch.where(mask, weight, 0.0)


def packed(mask: Mask) -> Int8[Tensor, " bytes"]:
    """One bit per weight; signed bytes, since unsigned ones are pixels throughout the library."""
    return torch.from_numpy(np.packbits(mask.cpu().numpy()).view(np.int8))


def unpacked(bits: Int8[Tensor, " bytes"], n: int) -> Mask:
    return torch.from_numpy(np.unpackbits(bits.numpy().view(np.uint8), count=n).astype(bool))


# ---- the wiring


class WSN(Learner[WSNConfig]):
    """A task is a mask over the shared weights; biases, norm layers and the head are its own.

    Note: frozen weights are put back after every step besides getting no gradient, so that they stay bit-identical
    under momentum and weight decay too.
    """

    card = Card(
        title="WSN (winning subnetworks)",
        paper="Kang et al., 2022",
        page="wsn",
        scenarios=("til",),
        memory="per task: 1 bit per weight, biases and norm state; 1 score per weight",
        parallel=True,
        one_network=False,
        space={"train.lr": LOW_RATES, "learner.capacity": (0.03, 0.05, 0.1, 0.3, 0.5)},
        presets=paper_presets(1e-3),  # it prints a row for every c
        adds_up=True,
    )
    Config: ClassVar[type] = WSNConfig

    def __init__(self, setting: Setting, config: WSNConfig | None = None) -> None:
        super().__init__(setting, config)
        self.body = setting.network.body
        if self.config.norm == "batch":
            forget_statistics(self.body)
        maps = {name: module for name, module in self.body.named_modules() if isinstance(module, MAPS)}
        self.weights: dict[str, Tensor] = {f"{name}.weight": module.weight for name, module in maps.items()}
        self.scores = {name: self._first_scores(name, weight) for name, weight in self.weights.items()}
        self.bits: list[Tensor] = []  # m_1 … m_t, all layers in a row
        self.own: list[dict[str, Tensor]] = []  # everything in the body but the masked weights, task by task
        self._prepare()

    def _first_scores(self, name: str, weight: Tensor) -> nn.Parameter:
        """Kaiming-uniform with a = √5, laid out in memory like the weight."""
        drawn = torch.empty(weight.shape)
        nn.init.kaiming_uniform_(drawn, a=math.sqrt(5), generator=generator(self.setting.seed, "scores", name))
        return nn.Parameter(torch.empty_like(weight, requires_grad=False).copy_(drawn))

    @torch.no_grad()
    def _prepare(self) -> None:
        """1 − M by layer, the values it guards, and no subnetwork at hand: all follow from what is kept."""
        self.free = {name: torch.ones_like(weight, dtype=torch.bool) for name, weight in self.weights.items()}
        for t in range(len(self.bits)):
            for name, mask in self._mask(t).items():
                self.free[name] &= ~mask
        self.frozen = Frozen((weight, ~self.free[name]) for name, weight in self.weights.items())
        self._at_hand: tuple[int, dict[str, Tensor]] | None = None

    def _mask(self, t: int) -> dict[str, Tensor]:
        """m_t by layer."""
        sizes = [weight.numel() for weight in self.weights.values()]
        parts = unpacked(self.bits[t], sum(sizes)).to(self.setting.device).split(sizes)
        return {name: part.view(w.shape) for (name, w), part in zip(self.weights.items(), parts, strict=True)}

    # ---- the course of a task

    def begin_task(self, task: Task) -> None:
        super().begin_task(task)
        self._at_hand = None  # so that later predictions are made of the weights as they are then

    def end_task(self, task: Task) -> None:
        """m_t from the scores of the best epoch, and what else is the task's own."""
        masks = [winners(scores, self.config.capacity).flatten() for scores in self.scores.values()]
        self.bits.append(packed(torch.cat(masks)))
        state = self.body.state_dict()
        self.own.append({name: value.clone() for name, value in state.items() if name not in self.weights})
        self._prepare()

    def parameters(self, stage: Stage) -> Iterable[nn.Parameter]:
        return [*self.body.parameters(), *self.scores.values(), *self.network.head(-1).parameters()]

    def step(self, batch: Batch, optimizer: torch.optim.Optimizer) -> Tensor:
        """One update that leaves every weight of an earlier task bit-identical."""
        loss = super().step(batch, optimizer)
        self.frozen.restore()
        return loss

    # ---- prediction

    def logits(self, images: Images, block: range | None) -> Logits:
        """Of a task's own subnetwork; a task under way or to come has the one its scores choose now."""
        t = self.blocks.index(block) if block in self.blocks else len(self.blocks)
        features = self._features(images, self._subnetwork(t) if t < len(self.bits) else self._current())
        if t < len(self.blocks):
            return self.network.classify(features, t)
        assert block is not None, "without a task there is no mask"
        logits: Logits = self.network.fresh_head(block.start, len(block))(features)
        return logits

    def _features(self, images: Images, state: dict[str, Tensor]) -> Features:
        features: Features = functional_call(self.body, state, (images,))
        return features

    def _current(self) -> dict[str, Tensor]:
        """The masked weights of the task under way."""
        capacity, state = self.config.capacity, {}
        for name, scores in self.scores.items():
            mask = winners(scores, capacity)
            state[name] = Winning.apply(self.weights[name], scores, mask, self.free[name])  # type: ignore[no-untyped-call]
        return state

    def _subnetwork(self, t: int) -> dict[str, Tensor]:
        """All of the body as task t left it; the last one asked for stays at hand."""
        if self._at_hand is None or self._at_hand[0] != t:
            with torch.inference_mode(False), torch.no_grad():
                own = {name: value.clone() for name, value in self.own[t].items()}
                masked = {name: selected(self.weights[name], mask) for name, mask in self._mask(t).items()}
            self._at_hand = (t, own | masked)
        return self._at_hand[1]

    # ---- what is kept

    def capacity(self) -> dict[str, float]:
        """``with masks`` is the authors' own measure: the stored bits count too, uncompressed, 32 to a parameter."""
        sizes = {name: p.numel() for name, p in self.body.named_parameters()}
        total = sum(sizes.values())
        shared = sum(int((~free).sum()) for free in self.free.values())
        own = len(self.own) * sum(n for name, n in sizes.items() if name not in self.weights)
        rows = torch.cat([(~free).flatten(1).any(1) for free in self.free.values()])
        bits = len(self.bits) * sum(weight.numel() for weight in self.weights.values())
        used = (shared + own) / total
        return {"parameters": used, "neurons": float(rows.double().mean()), "with masks": used + bits / 32 / total}

    def bytes_kept(self, n_classes: int) -> int:
        weights = sum(weight.numel() for weight in self.weights.values())
        own: int = sum(x.nbytes for name, x in self.body.state_dict().items() if name not in self.weights)
        return 4 * weights + self.setting.n_tasks * (weights // 8 + own)

    def state_dict(self) -> State:
        scores = {name: scores.detach() for name, scores in self.scores.items()}
        return super().state_dict() | {"scores": scores, "bits": list(self.bits), "own": list(self.own)}

    @torch.no_grad()
    def load_state_dict(self, state: State) -> None:
        super().load_state_dict(state)
        for name, scores in self.scores.items():
            scores.copy_(state["scores"][name])
        self.bits = [bits.cpu() for bits in state["bits"]]
        self.own = [{name: x.to(self.setting.device) for name, x in own.items()} for own in state["own"]]
        self._prepare()


def forget_statistics(body: nn.Module) -> None:
    """Batch norm as in the authors' code: neither affine parameters nor running statistics."""
    for module in body.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.affine = module.track_running_stats = False
            module.weight = module.bias = None  # type: ignore[assignment]
            module.running_mean = module.running_var = module.num_batches_tracked = None

"""SpaceNet (Sokar, Mocanu and Pechenizkiy, 2021): a task's few connections gather in few units, which it reserves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from snv.components import Masks, at_random, disconnect, forget_moments, highest, is_first_convolution
from snv.data import Task
from snv.errors import UserError
from snv.files import State
from snv.learners.card import Card
from snv.learners.checks import check_range
from snv.learners.sparse import SparseLearner, Which, check_idle
from snv.networks import MLP
from snv.neurons import Connections
from snv.seeding import generator
from snv.shapes import Images, Labels, Logits, Values
from snv.training import Batch, Setting, Stage, cross_entropies, descend, n_right

HIDDEN = (400, 400)
DENSITIES = (0.16, 0.256, 0.5)
"""Share of the possible connections in the first layer, the others and the head: the authors' for split MNIST."""


@dataclass(frozen=True)
class SpaceNetConfig:
    """Learning rate (1e-3 in the paper), batch size and epochs are those of training."""

    network: Which = "native"  # the authors' two hidden layers of 400 units; "adapted": the run's
    reserved: int | None = None  # n_spec, units of a layer a task reserves at most; None: 40 of the native network (the
    # authors'), no limit in others; in all, a share 1 / (tasks + 1) of a layer, and twice as many are selected
    sparsity: float | None = None  # s_init of the paper, which chose 0.5; None: the authors' own densities
    rewired: float = 0.2  # r, share of a task's connections that move after every epoch; the authors'
    strength: float = 1.0  # λ_sp of the paper's grid; the method has no such term

    def __post_init__(self) -> None:
        check_range(self, "reserved", 1, advice="Try 40.")
        check_range(self, "rewired", 0, 1, advice="Try 0.2.")
        if self.sparsity is not None and not 0 <= self.sparsity < 1:
            raise UserError(
                f"learner.sparsity is the share of connections left out, so it lies in [0, 1); got {self.sparsity}. "
                "Try 0.5."
            )
        check_idle(self, "strength")


# ---- the method


def added_importance(before: Tensor, after: Tensor, gradient: Tensor) -> Tensor:
    """|(w_after − w_before) · ∂L/∂w| of one step, summed over the weights of a kernel: (rows, columns)."""
    parts = ((after - before) * gradient).abs()
    return parts.sum(tuple(range(2, parts.ndim))) if parts.ndim > 2 else parts


def unit_importance(connections: Iterable[Connections], importance: Masks, n: int) -> Values:
    """A_i = Σ of the importance of all connections that lead to unit i."""
    total = torch.zeros(n)
    for c in connections:
        total.index_add_(0, c.targets, importance[c.name].sum(1).cpu())
    return total


def growth_scores(c: Connections, importance: Tensor, of_units: Values) -> Tensor:
    """A_target · A_source of every place; a pixel is as important as the connections that leave it."""
    image = c.sources == len(of_units)
    sources = torch.where(image, importance.sum(0).cpu(), of_units[c.sources.clamp(max=len(of_units) - 1)])
    return of_units[c.targets][:, None] * sources


def rewire(own: Tensor, places: Tensor, importance: Tensor, scores: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """The connections with the least importance go, and as many come where scores are highest: (dropped, grown)."""
    n = min(round(share * int(own.sum())), int((places & ~own).sum()))
    return highest(-importance, own, n), highest(scores, places & ~own, n)


# ---- the wiring


class SpaceNet(SparseLearner[SpaceNetConfig]):
    """Every task gets connections between units it selects, and at its end keeps the most important units for itself.

    Units that were selected and not reserved are shared: later tasks lead more connections into them, so some
    forgetting is in the method.
    """

    card = Card(
        title="SpaceNet (reserved units of a sparse network), its own MLP; other networks adapted",
        paper="Sokar, Mocanu and Pechenizkiy, 2021",
        page="spacenet",
        memory="1 byte per connection and per unit; 6 per connection while it trains",
        forgets="a task is trained against zeros in place of the old classes, so their logits are never compared.",
    )
    Config: ClassVar[type] = SpaceNetConfig

    def __init__(self, setting: Setting, config: SpaceNetConfig | None = None) -> None:
        config = config or SpaceNetConfig()
        native = MLP(generator(setting.seed, "spacenet"), setting.preprocess.shape, HIDDEN)
        super().__init__(setting, config, native if config.network == "native" else None)
        limit = config.reserved or (40 if config.network == "native" else self.units.n)
        self.n_reserved = [min(limit, len(layer) // (setting.n_tasks + 1)) for layer in self.units.layers]  # n_spec
        self._check_room()
        self.taken: Masks = {c.name: self._none(c) for c in self.units.connections}  # P
        self.own: Masks = {}  # m of the current task, its head's too
        self.importance: Masks = {}  # I
        self.reserved = self.units.mask(False, image=False, classes=False)
        self.selected = self.units.mask(False, image=True, classes=True)
        with torch.no_grad():
            for owned in self.neurons.owned:
                if owned.role in ("weight", "bias"):
                    owned.tensor.zero_()

    def _check_room(self) -> None:
        least = min(map(len, self.units.layers))
        if min(self.n_reserved) < 1:
            raise UserError(
                f"Each of {self.setting.n_tasks} tasks reserves a unit of every layer and needs another, so a layer has "
                f"at least {self.setting.n_tasks + 1}; found one with {least}. Use a wider network, or fewer tasks."
            )

    def _none(self, c: Connections) -> Tensor:
        return torch.zeros(c.weight.shape[:2], dtype=torch.bool)

    # ---- the course of a task

    @torch.no_grad()
    def begin_task(self, task: Task) -> None:
        """Select free units, and draw connections among them that start at their first random weights."""
        super().begin_task(task)
        rng = generator(self.setting.seed, "connections", task.id)
        for layer, n in zip(self.units.layers, self.n_reserved, strict=True):
            free = ~self.reserved[layer.start : layer.stop]
            self.selected[layer.start : layer.stop] = at_random(free, 2 * n, rng)
        for c in self.connections():
            places = self._places(c)
            n = max(1, round(self._density(c) * int(places.sum())))
            self.own[c.name] = at_random(places, n, rng)
            disconnect(c.weight, ~(self.own[c.name] | self.taken.get(c.name, False)))
            c.weight[self.own[c.name]] = self._first_weights(c)[self.own[c.name]].to(c.weight)
            self.importance[c.name] = torch.zeros(c.weight.shape[:2], device=self.setting.device)
        self.hold(self.own, ~self.reserved)

    def _places(self, c: Connections) -> Tensor:
        """Where the task may have connections: between selected units, if no earlier task has one there."""
        return c.between(self.selected, self.selected) & ~self.taken.get(c.name, self._none(c))

    def _density(self, c: Connections) -> float:
        if is_first_convolution(c, self.units):
            return 1.0
        if self.config.sparsity is not None:
            return 1 - self.config.sparsity
        return DENSITIES[2 if c.name == "head" else 0 if bool((c.sources == self.units.n).any()) else 1]

    def _first_weights(self, c: Connections) -> Tensor:
        """W0, Xavier-uniform; it follows from the seed, so it is not kept."""
        purpose = c.name if c.name != "head" else f"head {len(self.blocks)}"
        rng = generator(self.setting.seed, "first weights", purpose)
        return nn.init.xavier_uniform_(torch.empty(c.weight.shape), generator=rng)

    def end_task(self, task: Task) -> None:
        """P ← P ∨ m, and the most important of the selected units are the task's own."""
        values = unit_importance(self.units.connections, self.importance, self.units.n)  # A
        for layer, n in zip(self.units.layers, self.n_reserved, strict=True):
            part = slice(layer.start, layer.stop)
            self.reserved[part] |= highest(values[part], self.selected[part], n)
        for c in self.units.connections:
            self.taken[c.name] |= self.own[c.name]
        self.own, self.importance = {}, {}

    # ---- one step

    def step(self, batch: Batch, optimizer: torch.optim.Optimizer) -> Tensor:
        """One update, after which I ← I + |Δw · ∂L/∂w|; from the second epoch on each begins with a rewiring."""
        if batch.step == 0 and batch.epoch > 0:
            self._rewire(optimizer)
        with self.setting.autocast():
            loss = self.loss(batch)
        connections = self.units.connections
        before = [c.weight.detach().clone() for c in connections]

        @torch.no_grad()
        def after() -> None:
            self.frozen.restore()
            for c, old in zip(connections, before, strict=True):
                assert c.weight.grad is not None
                self.importance[c.name] += added_importance(old, c.weight, c.weight.grad)

        return descend(loss, optimizer, batch.stage.settings.clip_norm, after)

    @torch.no_grad()
    def _rewire(self, optimizer: torch.optim.Optimizer) -> None:
        """Connections of the body move to where important units meet; new ones start at 0."""
        values = unit_importance(self.units.connections, self.importance, self.units.n)  # A
        for c in self.units.connections:
            own, importance = self.own[c.name], self.importance[c.name]
            scores = growth_scores(c, importance, values)
            dropped, grown = rewire(own, self._places(c), importance.cpu(), scores, self.config.rewired)
            disconnect(c.weight, dropped)
            forget_moments(optimizer, c.weight, dropped | grown)
            importance[dropped] = 0
            self.own[c.name] = own & ~dropped | grown
        self.hold(self.own, ~self.reserved)

    def loss(self, batch: Batch) -> Tensor:
        return batch.cross_entropy(self._compared(batch.images), self.scope())

    def validation(self, images: Images, labels: Labels, stage: Stage) -> tuple[Tensor, Tensor]:
        logits = self._compared(images)
        return cross_entropies(logits, labels, self.scope()).mean(), n_right(logits, labels, self.scope())

    def _compared(self, images: Images) -> Logits:
        """The logits of the current task; in CIL zeros stand for those of old classes, whose rows are put away."""
        logits: Logits = self.network(images, len(self.blocks) - 1)
        return logits if self.scope() is not None else F.pad(logits, (self.blocks[-1].start, 0))

    # ---- what is kept

    def capacity(self) -> dict[str, float]:
        return self.share_in_use({name: taken | self.own.get(name, taken) for name, taken in self.taken.items()})

    def bytes_kept(self, n_classes: int) -> int:
        return 6 * self.bytes_of_masks()

    def state_dict(self) -> State:
        return super().state_dict() | {
            "taken": dict(self.taken),
            "own": dict(self.own),
            "importance": dict(self.importance),
            "reserved": self.reserved,
            "selected": self.selected,
        }

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict(state)
        self.taken, self.own = ({name: x.cpu() for name, x in state[key].items()} for key in ("taken", "own"))
        self.importance = {name: x.to(self.setting.device) for name, x in state["importance"].items()}
        self.reserved, self.selected = state["reserved"].cpu(), state["selected"].cpu()
        if self.own:
            self.hold(self.own, ~self.reserved)

"""SpaceNet (Sokar, Mocanu and Pechenizkiy, 2021): a task's few connections gather in few units, which it reserves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from snv.components import Masks, OwnConnections, all_but, at_random, disconnect, highest, is_first_convolution
from snv.data import Task
from snv.errors import UserError
from snv.files import State
from snv.learners.card import Card
from snv.learners.checks import check_range
from snv.learners.grids import LOW_RATES, paper_presets
from snv.learners.sparse import SparseLearner, Which, check_idle, check_sparsity
from snv.networks import MLP
from snv.neurons import Connections, Units, own_weights
from snv.seeding import generator
from snv.shapes import Entries, Images, Indices, Labels, Logits, Values
from snv.training import Batch, Setting, Stage, cross_entropies, n_right

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
        check_sparsity(self.sparsity)
        check_idle(self, "strength")


# ---- the method


def unit_importance(units: Units, own: OwnConnections) -> Values:
    """A_i = Σ of the importance of all connections that lead to unit i."""
    total = torch.zeros(units.n)
    for c in units.connections:
        total.index_add_(0, c.targets[own.places[c.name][:, 0]], own.importance[c.name].cpu())
    return total


def growth_scores(c: Connections, own: Tensor, importance: Tensor, of_units: Values) -> Tensor:
    """A_target · A_source of every place; a part of the image is as important as the connections that leave it."""
    leaving = torch.zeros(len(c.sources)).index_add_(0, own[:, 1], importance.cpu())
    sources = torch.where(c.sources == len(of_units), leaving, torch.cat([of_units, leaving[:1]])[c.sources])
    return of_units[c.targets][:, None] * sources


def rewired(own: Tensor, free: Entries, importance: Tensor, scores: Tensor, share: float) -> tuple[Indices, Tensor]:
    """Which of a layer's connections go, those of least importance, and where to: the free places that score best."""
    n = min(round(share * len(own)), int(free.sum()))
    return importance.cpu().argsort(stable=True)[:n], highest(scores, free, n).nonzero()


# ---- the wiring


class SpaceNet(SparseLearner[SpaceNetConfig]):
    """Every task gets connections between units it selects, and at its end keeps the most important units for itself.

    Units that were selected and not reserved are shared: later tasks lead more connections into them, so some
    forgetting is in the method. The optimiser has nothing but the task's own connections, biases and norm entries.
    """

    card = Card(
        title="SpaceNet (reserved units of a sparse network), its own MLP; other networks adapted",
        paper="Sokar, Mocanu and Pechenizkiy, 2021",
        page="spacenet",
        memory="1 byte per connection and per unit; while it trains 20 for each connection of the task",
        forgets="a task is trained against zeros in place of the old classes, so their logits are never compared.",
        quick=False,
        space={"train.lr": LOW_RATES, "learner.sparsity": (0.3, 0.5, 0.7), "learner.strength": (0.1, 1, 10)},
        idle={"learner.strength": "the method has no such term"},
        presets=paper_presets(1e-3, {"learner.sparsity": 0.5, "learner.strength": 1}),
        adds_up=True,
    )
    Config: ClassVar[type] = SpaceNetConfig

    def __init__(self, setting: Setting, config: SpaceNetConfig | None = None) -> None:
        config = config or SpaceNetConfig()
        native = MLP(generator(setting.seed, "spacenet"), setting.preprocess.shape, HIDDEN)
        super().__init__(setting, config, native if config.network == "native" else None)
        limit = config.reserved or (40 if config.network == "native" else self.units.n)
        self.n_reserved = [min(limit, len(layer) // (setting.n_tasks + 1)) for layer in self.units.layers]  # n_spec
        self._check_room()
        self.taken: Masks = {c.name: none_of(c) for c in self.units.connections}  # P
        self.reserved = self.units.mask(False, image=False, classes=False)
        self.selected = self.units.mask(False, image=True, classes=True)
        self.own: OwnConnections | None = None  # of the current task, its head's too: m and I
        with torch.no_grad():
            for owned in own_weights(self.neurons):
                owned.tensor.zero_()

    def _check_room(self) -> None:
        if min(self.n_reserved) < 1:
            raise UserError(
                f"Each of {self.setting.n_tasks} tasks reserves units of every layer and selects as many others, so a "
                f"layer has at least {self.setting.n_tasks + 1}; found one with {min(map(len, self.units.layers))}. "
                "Use a wider network, or fewer tasks."
            )

    # ---- the course of a task

    @torch.no_grad()
    def begin_task(self, task: Task) -> None:
        """Select free units, and draw connections among them that start at their first random weights."""
        super().begin_task(task)
        rng = generator(self.setting.seed, "connections", task.id)
        for layer, n in zip(self.units.layers, self.n_reserved, strict=True):
            part = slice(layer.start, layer.stop)
            self.selected[part] = at_random(~self.reserved[part], 2 * n, rng)
        mine = {}
        for c in self.connections():
            places = self._places(c)
            chosen = at_random(places, max(1, round(self._density(c) * int(places.sum()))), rng)
            disconnect(c.weight, ~self.taken.get(c.name, none_of(c)))
            c.weight[chosen] = self._first_weights(c)[chosen].to(c.weight)
            mine[c.name] = chosen.nonzero()
        self._take_up(mine, {name: torch.zeros(len(places)) for name, places in mine.items()})

    def _places(self, c: Connections) -> Entries:
        """Where the task may have connections: between selected units, if no earlier task has one there."""
        return c.between(self.selected, self.selected) & ~self.taken.get(c.name, none_of(c))

    def _density(self, c: Connections) -> float:
        if is_first_convolution(c, self.units):
            return 1.0
        if self.config.sparsity is not None:
            return 1 - self.config.sparsity
        return DENSITIES[2 if c.name == "head" else 0 if bool((c.sources == self.units.n).any()) else 1]

    def _first_weights(self, c: Connections) -> Tensor:
        """W0, Xavier-uniform; it follows from the seed, so it is not kept."""
        rng = generator(self.setting.seed, "first weights", c.name, len(self.blocks) if c.name == "head" else 0)
        return nn.init.xavier_uniform_(torch.empty(c.weight.shape), generator=rng)

    def _take_up(self, places: Masks, importance: Masks) -> None:
        """The task's connections; biases and norm entries of reserved units stand still."""
        self.own = OwnConnections(self.connections(), places, importance)
        self.frozen = all_but([], self.neurons, self.units, {}, ~self.reserved)

    def end_task(self, task: Task) -> None:
        """P ← P ∨ m, and the most important of the selected units are the task's own."""
        assert self.own is not None
        values = unit_importance(self.units, self.own)  # A
        for layer, n in zip(self.units.layers, self.n_reserved, strict=True):
            part = slice(layer.start, layer.stop)
            self.reserved[part] |= highest(values[part], self.selected[part], n)
        for c in self.units.connections:
            self.taken[c.name][tuple(self.own.places[c.name].T)] = True
        self.own = None

    # ---- one step

    def parameters(self, stage: Stage) -> Iterable[nn.Parameter]:
        assert self.own is not None
        dense = {id(c.weight) for c in self.own.connections}
        return [*self.own.weights.values(), *(p for p in super().parameters(stage) if id(p) not in dense)]

    def step(self, batch: Batch, optimizer: torch.optim.Optimizer) -> Tensor:
        """One update; from the second epoch on, each begins with a rewiring."""
        if batch.step == 0 and batch.epoch > 0:
            self._rewire(optimizer)
        return super().step(batch, optimizer)

    def before_update(self) -> None:
        assert self.own is not None
        self.own.take_gradients()

    def after_update(self) -> None:
        super().after_update()
        assert self.own is not None
        self.own.write_back()

    def _rewire(self, optimizer: torch.optim.Optimizer) -> None:
        """Connections of the body move to where important units meet."""
        assert self.own is not None
        values = unit_importance(self.units, self.own)  # A
        for c in self.units.connections:
            own, importance = self.own.places[c.name], self.own.importance[c.name]
            free = self._places(c)
            free[tuple(own.T)] = False
            scores = growth_scores(c, own, importance, values)
            self.own.move(c, *rewired(own, free, importance, scores, self.config.rewired), optimizer)

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
        return self.share_in_use(self.taken)

    def bytes_kept(self, n_classes: int) -> int:
        """P; and while it trains, two indices and I for each connection of the task."""
        share = self.units.mask(False, image=True, classes=True).double()
        for layer, n in zip(self.units.layers, self.n_reserved, strict=True):
            share[layer.start : layer.stop] = 2 * n / len(layer)
        own = [self._density(c) * share[c.targets].sum() * share[c.sources].sum() for c in self.units.connections]
        return self.bytes_of_masks() + 20 * int(sum(own))

    def state_dict(self) -> State:
        return super().state_dict() | {
            "taken": dict(self.taken),
            "reserved": self.reserved,
            "selected": self.selected,
            "own": self.own.state() if self.own is not None else None,
        }

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict(state)
        self.taken = {name: x.cpu().clone() for name, x in state["taken"].items()}
        self.reserved, self.selected = state["reserved"].cpu().clone(), state["selected"].cpu().clone()
        self.own = None
        if state["own"] is not None:
            self._take_up(state["own"]["places"], state["own"]["importance"])


def none_of(c: Connections) -> Entries:
    return torch.zeros(c.weight.shape[:2], dtype=torch.bool)

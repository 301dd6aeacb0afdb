"""NISPA (Gurbuz and Dovrolis, 2022): units a task needs become stable, and connections are rewired around them."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float64
from torch import Tensor

from snv.components import Masks, all_but, at_random, disconnect, grown, is_first_convolution, redraw_plastic
from snv.data import Task
from snv.errors import UserError
from snv.files import State, cloned
from snv.learners.card import Card
from snv.learners.checks import check_least, check_range
from snv.learners.grids import RATES, paper_presets
from snv.learners.sparse import SparseLearner, Which, check_idle, check_sparsity
from snv.networks import PlainConvNet, bytes_of
from snv.neurons import Connections, activity
from snv.seeding import generator
from snv.shapes import Entries, Mask
from snv.training import Setting, Stage

LAST_THRESHOLD = 0.05
"""A task is over once its candidates need to hold no more than this share of a layer's activity."""


@dataclass(frozen=True)
class NISPAConfig:
    """Learning rate (the authors' for CIFAR-100: 2e-3), batch size and epochs, of all phases, are those of training."""

    network: Which = "native"  # the authors' convnet; "adapted": the run's
    sparsity: float = 0.5  # s, share of the connections that do not exist; the paper's choice, the authors' is 0.9
    phase_epochs: int = 5  # e; the authors'. Fewer where a task would have less than four phases
    steps: int = 30  # k_p, phases in which the threshold would fall from 1 to 0; the authors'. Fewer in short training
    tolerance: float = 2.5  # a_f, points of accuracy a phase may lose; the authors' for CIFAR-100
    strength: float = 1.0  # λ_reg of the paper's grid; the method has no such term

    def __post_init__(self) -> None:
        check_sparsity(self.sparsity)
        check_least(self, 1, "phase_epochs")
        check_least(self, 3, "steps")
        check_range(self, "tolerance", 0, 100, "Try 2.5.")
        check_idle(self, "strength")


# ---- the method


def threshold(phase: int, steps: int) -> float:
    """τ_p = ½ (1 + cos(pπ / k_p)), with phases counted from 1."""
    return 0.5 * (1 + math.cos(phase * math.pi / steps))


def n_phases(steps: int) -> int:
    """Phases before the threshold is down; another one would be trained and thrown away."""
    return sum(threshold(phase, steps) > LAST_THRESHOLD for phase in range(1, steps))


def schedule(epochs: int, phase_epochs: int, steps: int) -> tuple[int, int]:
    """e and k_p of a task with so many epochs: shorter phases, and fewer of them, where they would not fit.

    The second phase is the first whose connections respect candidates, so there are at least two.
    """
    length = min(phase_epochs, max(1, epochs // 4))
    room = max(2, epochs // length)
    return length, max(k for k in range(3, steps + 1) if k == 3 or n_phases(k) <= room)


def most_active(amounts: Float64[Tensor, " u"], share: float) -> Mask:
    """The fewest units that hold this share of a layer's activity."""
    order = amounts.argsort(descending=True, stable=True)
    n = 1 + int((amounts[order].cumsum(0) < share * amounts.sum()).sum())
    chosen = torch.zeros(len(amounts), dtype=torch.bool)
    chosen[order[:n]] = True
    return chosen


def like_others(weights: Tensor, n: int, rng: torch.Generator) -> Tensor:
    """``n`` connections drawn from a normal distribution with the mean and deviation of a layer's weights."""
    mean, deviation = (float(x) for x in (weights.mean(), weights.std(unbiased=False))) if len(weights) else (0.0, 0.1)
    return (mean + deviation * torch.randn(n, *weights.shape[1:], generator=rng)).to(weights)


# ---- the wiring


class NISPA(SparseLearner[NISPAConfig]):
    """A task trains in phases; after each, fewer units hold enough of the activity to be candidates for stability.

    What leads from other units to candidates is dropped and grows elsewhere, so that stable units depend on stable ones
    only. Their connections, biases and norm entries never move again, and later tasks may read them.

    Note: the authors take a phase's epoch of best validation accuracy; here it is that of the lowest validation loss,
    as for every method.
    """

    card = Card(
        title="NISPA (stable and plastic units of a sparse network), its own convnet; other networks adapted",
        paper="Gurbuz and Dovrolis, 2022",
        page="nispa",
        memory="1 byte per connection and per unit; twice that and a copy of the network while it trains",
        forgets="old heads stand still and no image of an old class is seen again, so the new head outvotes them.",
        quick=False,
        space={"train.lr": RATES, "learner.sparsity": (0.3, 0.5, 0.7, 0.9), "learner.strength": (0.1, 1, 10)},
        idle={"learner.strength": "the method has no such term"},
        presets=paper_presets(1e-2, {"learner.sparsity": 0.5, "learner.strength": 1}),
        adds_up=True,
    )
    Config: ClassVar[type] = NISPAConfig

    def __init__(self, setting: Setting, config: NISPAConfig | None = None) -> None:
        config, shape = config or NISPAConfig(), setting.preprocess.shape
        if config.network == "native" and min(shape[1:]) < 4:
            raise UserError(f"nispa's own convnet needs 4 × 4 pixels; got {shape}. Use learner.network=adapted.")
        own = config.network == "native"
        native = PlainConvNet(generator(setting.seed, "nispa"), shape) if own else None
        super().__init__(setting, config, native)
        rng = generator(setting.seed, "connections")
        self.mask: Masks = {c.name: self._first(c, rng) for c in self.units.connections}  # and of the head in training
        self.stable = self.units.mask(False, image=True, classes=False)  # S of earlier tasks
        self.candidates = self.stable.clone()  # the connections as they are respect these
        self.best, self.over = 0.0, False  # accuracy of the task's phases, and whether one was too bad
        self.cached: State = None  # what the last good phase ended with

    def _first(self, c: Connections, rng: torch.Generator) -> Entries:
        """Connections drawn at random; all others are cut."""
        everywhere = torch.ones(c.weight.shape[:2], dtype=torch.bool)
        mask = at_random(everywhere, self._n_connections(c), rng)
        disconnect(c.weight, ~mask)
        return mask

    def _n_connections(self, c: Connections) -> int:
        """How many a layer has, all through its life while there is room."""
        density = 1.0 if is_first_convolution(c, self.units) else 1 - self.config.sparsity
        return max(1, round(density * c.weight.shape[:2].numel()))

    # ---- the course of a task

    def begin_task(self, task: Task) -> None:
        super().begin_task(task)
        head = self.units.head(self.network.head(-1))
        self.mask[head.name] = self._first(head, generator(self.setting.seed, "connections", task.id))
        self.candidates, self.best, self.over = self.stable.clone(), 0.0, False
        self.candidates[-1] = True  # classes
        self._cache()
        self._hold()

    def stage(self, task: Task, index: int) -> Stage | None:
        """The next phase, unless the last one was too bad or the threshold is down."""
        length, steps = self._schedule()
        if self.over or index >= n_phases(steps):
            return None
        return Stage(f"phase {index + 1}", dataclasses.replace(self.setting.train, epochs=length, patience=length))

    def _schedule(self) -> tuple[int, int]:
        return schedule(self.setting.train.epochs, self.config.phase_epochs, self.config.steps)

    def end_stage(self, task: Task, stage: Stage) -> None:
        """Keep the phase if it was good enough, choose candidates, and rewire for the next one."""
        phase, steps = int(stage.name.split()[1]), self._schedule()[1]
        with self.reporter.phase("rewire"):
            accuracy = self._accuracy(task, stage)
            self.over = phase > 2 and accuracy < self.best - self.config.tolerance
            if self.over:
                return
            self.best = max(self.best, accuracy)
            self._cache()
            if phase < n_phases(steps):
                self._choose(task, threshold(phase, steps))
                self._rewire(generator(self.setting.seed, "rewiring", task.id, phase))

    @torch.no_grad()
    def _accuracy(self, task: Task, stage: Stage) -> float:
        self.set_training(False, stage)
        right = [self.validation(images, labels, stage)[1] for images, labels in self.setting.prepared(task.val)]
        return 100 * float(torch.stack(right).sum()) / len(task.val)

    def _cache(self) -> None:
        self.cached = cloned(
            {
                "network": dict(self.network.state_dict()),
                "mask": self.mask,
                "candidates": self.candidates,
            }
        )

    def _choose(self, task: Task, share: float) -> None:
        """Stable units, and in every layer the fewest that hold ``share`` of what it says on the training images."""
        images = (images for images, _ in self.setting.prepared(task.train))
        amounts = activity(self.network.body, self.neurons, self.units, images)
        for layer in self.units.layers:
            part = slice(layer.start, layer.stop)
            self.candidates[part] = self.stable[part] | most_active(amounts[part], share)

    @torch.no_grad()
    def _rewire(self, rng: torch.Generator) -> None:
        """Drop what leads from other units to candidates; as many new connections lead to other units."""
        for c in self.connections():
            existing = self.mask[c.name] & ~c.between(~self.candidates, self.candidates)
            new = grown(c, existing, self._n_connections(c) - int(existing.sum()), self.candidates, rng)
            c.weight[new] = like_others(c.weight[self.mask[c.name]], int(new.sum()), rng)
            self.mask[c.name] = existing | new
            disconnect(c.weight, ~self.mask[c.name])
        self._hold()

    @torch.no_grad()
    def end_task(self, task: Task) -> None:
        """Back to the last good phase; its candidates are stable, and all else is drawn anew."""
        self.network.load_state_dict(self.cached["network"])
        self.mask = {name: mask for name, mask in self.cached["mask"].items() if name != "head"}
        self.stable = self.cached["candidates"].clone()
        self.stable[-1] = False  # classes of tasks to come
        self.cached = None
        plastic = {c.name: self._plastic(c) for c in self.units.connections}
        redraw_plastic(
            self.neurons, self.units, plastic, ~self.stable, generator(self.setting.seed, "plastic", task.id)
        )

    def _plastic(self, c: Connections) -> Entries:
        return self.mask[c.name] & ~c.between(self.stable, self.stable)

    def _hold(self) -> None:
        """Stable units stand still, with everything between them."""
        moving = {c.name: self._plastic(c) for c in self.connections()}
        self.frozen = all_but(self.connections(), self.neurons, self.units, moving, ~self.stable)

    # ---- what is kept

    def capacity(self) -> dict[str, float]:
        """Stable units, and the connections between them."""
        frozen = {c.name: self.mask[c.name] & ~self._plastic(c) for c in self.units.connections}
        return self.share_in_use(frozen)

    def bytes_kept(self, n_classes: int) -> int:
        return bytes_of(self.network) + 2 * self.bytes_of_masks()

    def state_dict(self) -> State:
        return super().state_dict() | {
            "mask": dict(self.mask),
            "stable": self.stable,
            "candidates": self.candidates,
            "phases": {"best": self.best, "over": self.over},
            "cached": self.cached,
        }

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict(state)
        self.mask = {name: mask.cpu() for name, mask in state["mask"].items()}
        self.stable, self.candidates = state["stable"].cpu(), state["candidates"].cpu()
        self.best, self.over = state["phases"]["best"], state["phases"]["over"]
        self.cached = cloned(state["cached"])
        if self.cached is not None:
            self._hold()

"""DCNet (Wang et al., 2025): tasks in gated subnetworks, classes gathered around directions nearly at right angles."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn

from snv.components import (
    Attended,
    Frozen,
    Slowed,
    TaskGates,
    Wire,
    fit_linear,
    new_directions,
    new_use,
    require_room,
)
from snv.data import Task
from snv.errors import UserError
from snv.files import State
from snv.learners.base import Learner
from snv.learners.card import Card
from snv.learners.dcnet_config import DCNetConfig
from snv.learners.dcnet_losses import (
    Directions,
    aggregation,
    contrastive_loss,
    contrastive_temperature,
    orthogonal_loss,
    orthogonal_temperature,
    turned,
)
from snv.learners.grids import RATES, paper_presets
from snv.networks import Projector, Spherical, bytes_of, norm_state
from snv.seeding import generator
from snv.shapes import Features, Images, Labels, Logits, Values
from snv.training import EVALUATION_BATCH, Batch, Setting, Stage


def shares_in_use(body: Attended, projector: Projector, used: Sequence[Tensor]) -> Iterable[tuple[Tensor, Tensor]]:
    """Every shared weight, and how far earlier tasks use it."""
    hidden = Wire(projector.hidden, reads=len(used) - 2, feeds=len(used) - 1)
    return (part for wire in [*body.wires, hidden] for part in wire.share_in_use(used))


class DCNet(Learner[DCNetConfig]):
    """Trains alike in TIL and CIL: first features that gather around directions, then a linear layer upon them.

    Note: frozen weights are put back after every step, so hard gates forget nothing, whatever the optimiser does.
    """

    card = Card(
        title="DCNet (discriminative and consistent network)",
        paper="Wang et al., 2025",
        page="dcnet",
        memory="per task: a gate per neuron and norm state; a direction per class; one projector",
        one_network=False,
        alike=True,
        quick=False,
        space={"train.lr": RATES, "learner.contrast": (0.1, 0.5, 1, 5)},
        presets=paper_presets(1e-2, {"learner.contrast": 1}, imagenet={"learner.contrast": 0.5}),
    )
    Config: ClassVar[type] = DCNetConfig

    def __init__(self, setting: Setting, config: DCNetConfig | None = None) -> None:
        super().__init__(setting, config)
        config, shape, n = self.config, setting.preprocess.shape, setting.network.body.n_features
        if config.rotations and shape[1] != shape[2]:
            raise UserError(f"learner.rotations needs square images; got {shape}. Set it to false.")
        self.turns = 4 if config.rotations else 1
        self.body = Attended(setting.network.body)
        self.projector = Projector(n, config.dimension, generator(setting.seed, "projector")).to(setting.device)
        sizes = [*self.body.sizes, n]  # the last gates are the projector's
        hard = config.gates == "hard"
        self.gates = TaskGates(sizes, config.steepest, hard, config.start, setting.seed, setting.device)
        self.norms: list[dict[str, Tensor]] = []  # of the tasks learned
        self.directions: list[Directions] = []  # of all tasks begun
        self.degrees: list[float] = []  # A of the tasks that came to the switch
        self._prepare()

    @torch.no_grad()
    def _prepare(self) -> None:
        """M, the temperature, and the weights that are held: all follow from what is kept."""
        self.used = self.gates.used()
        self.temperature = orthogonal_temperature(self.used)
        shares = list(shares_in_use(self.body, self.projector, self.gates.by_layer(self.used)))
        frozen = ((weight, share > 0) for weight, share in shares)
        self.held = Frozen(frozen) if self.gates.hard else Slowed(shares)

    # ---- the course of a task

    def begin_task(self, task: Task) -> None:
        t, n, seed, d = len(self.blocks), self.turns * len(task.block), self.setting.seed, self.config.dimension
        if t == 0:
            require_room(d, n, self.setting.n_tasks, partial(generator, seed, "directions"))
        self.network.add_head(n)
        self.blocks.append(task.block)
        before = torch.cat([torch.zeros(0, d, device=self.setting.device), *self.directions])
        self.directions.append(new_directions(before, n, generator(seed, "directions", t)))
        self.projector.renew(generator(seed, "projector", t))

    def stage(self, task: Task, index: int) -> Stage | None:
        """At first images gather around their directions; later they are compared with each other too."""
        train = self.setting.train
        first = min(train.epochs, max(1, round(self.config.switch * train.epochs)))
        lengths = {"gather": first, "compensate": train.epochs - first}
        names = [name for name, epochs in lengths.items() if epochs > 0]
        if index >= len(names):
            return None
        settings = dataclasses.replace(train, epochs=lengths[names[index]])
        return Stage(names[index], settings, begins=index * first, of_epochs=train.epochs)

    def end_stage(self, task: Task, stage: Stage) -> None:
        """A_t at the switch."""
        if stage.name == "gather" and self.stage(task, 1) is not None:
            with self.reporter.phase("aggregation"):
                f, labels = self._seen(task, partial(self._spherical, gates=self.gates.settled(len(self.norms))))
                self.degrees.append(float(aggregation(f, self.directions[-1], labels)))

    def end_task(self, task: Task) -> None:
        """The linear layer, then what else is the task's own; weights that it uses are held from now on."""
        t, train, config = len(self.norms), self.setting.train, self.config
        augmented = train.augment and self.setting.preprocess.augmentation != "none"
        rng = generator(self.setting.seed, "classifier", t)
        of = partial(self._features, gates=self.gates.settled(t))
        with self.reporter.phase("classifier"):
            n_passes = config.classifier_passes if augmented else 1
            passes = [self._seen(task, of, rng if augmented else None) for _ in range(n_passes)]
            features, labels = [phi for phi, _ in passes], passes[0][1]
            head, epochs = self.network.head(-1), config.classifier_epochs
            fit_linear(head, features, labels, epochs, train.batch_size, train.smoothing, rng)
        self.gates.keep()
        self.norms.append(norm_state(self.network.body))
        self._prepare()

    @torch.no_grad()
    def _seen(
        self, task: Task, of: Callable[[Images], Features], rng: torch.Generator | None = None
    ) -> tuple[Features, Labels]:
        """What ``of`` makes of all training images, augmented if there is an ``rng``, and their directions."""
        self.network.eval()
        setting, parts, classes = self.setting, [], []
        for pixels, labels in task.train.batches(torch.arange(len(task.train)).split(EVALUATION_BATCH)):
            images = setting.preprocess(pixels, setting.device, rng, setting.train.channels_last)
            images, labels = self._inputs(images, labels.to(setting.device))
            parts.append(of(images))
            classes.append(labels)
        return torch.cat(parts), torch.cat(classes)

    def _inputs(self, images: Images, labels: Labels) -> tuple[Tensor, Tensor]:
        """Images, turned if that is asked for, and their classes within the task."""
        own = labels - self.blocks[-1].start
        return turned(images, own, len(self.blocks[-1])) if self.turns > 1 else (images, own)

    # ---- one step

    def parameters(self, stage: Stage) -> Iterable[nn.Parameter]:
        return [*self.network.body.parameters(), *self.projector.parameters(), self.gates.embedding]

    def step(self, batch: Batch, optimizer: torch.optim.Optimizer) -> Tensor:
        """One update that weights of earlier tasks take no part in."""
        if isinstance(self.held, Slowed):
            self.held.remember()
        loss = super().step(batch, optimizer)
        self.held.restore()
        self.gates.clip()
        return loss

    def loss(self, batch: Batch) -> Tensor:
        """L_orth + λ_h · (new neurons taken), and after the switch + λ_dc L_con."""
        config, settings, images, labels = self.config, batch.stage.settings, batch.images, batch.labels
        if config.views == 2:
            second = self.setting.augmented(batch.pixels, settings, batch.rng("second view"))
            images, labels = torch.cat([images, second]), labels.repeat(2)
        images, labels = self._inputs(images, labels)
        gates = self.gates.soft(batch.step, batch.n_steps)
        f = self._spherical(images, gates)
        loss = orthogonal_loss(f, self.directions[-1], labels, self.temperature, settings.smoothing)
        loss = loss + (config.sparsity if self.norms else config.first_sparsity) * new_use(gates, self.used)
        if batch.stage.name == "compensate" and config.contrast > 0:
            loss = loss + config.contrast * contrastive_loss(f, labels, contrastive_temperature(self.degrees))
        return loss

    def validation(self, images: Images, labels: Labels, stage: Stage) -> tuple[Tensor, Tensor]:
        """L_orth of images as they are; answers are the nearest directions, since the linear layer comes later."""
        block, directions = self.blocks[-1], self.directions[-1]
        f, own = self._spherical(images, self.gates.settled(len(self.norms))), labels - block.start
        nearest = (f @ directions[: len(block)].T).argmax(1)
        return orthogonal_loss(f, directions, own, self.temperature), (nearest == own).sum()

    # ---- prediction

    def logits(self, images: Images, block: range | None) -> Logits:
        """Of a task's own subnetwork and linear layer; of all tasks', side by side, if the task is not known."""
        if block is None:
            return torch.cat([self._answer(images, t, self.network.head(t)) for t in range(len(self.blocks))], dim=1)
        if block in self.blocks:
            t = self.blocks.index(block)
            return self._answer(images, t, self.network.head(t))
        to_come = self.network.fresh_head(self.turns * block.start, self.turns * len(block))
        return self._answer(images, len(self.blocks), to_come)

    def _answer(self, images: Images, t: int, head: nn.Linear) -> Logits:
        """o[c] = mean over rotations r of head(φ_t(x turned r times))[c + r·k]."""
        gates, norm = self.gates.settled(t), self.norms[t] if t < len(self.norms) else None
        turns = [images.rot90(r, (2, 3)) if r else images for r in range(self.turns)]
        scores = [head(self._features(seen, gates, norm)).chunk(self.turns, 1)[r] for r, seen in enumerate(turns)]
        return torch.stack(scores).mean(0)

    def _features(self, images: Images, gates: Values, norm: dict[str, Tensor] | None = None) -> Features:
        """φ, with the norm layers of the body or of a task."""
        return self.body(images, self.gates.by_layer(gates)[:-1], norm)

    def _spherical(self, images: Images, gates: Values) -> Spherical:
        """f = projector(φ), of length 1."""
        f: Spherical = self.projector(self._features(images, gates), self.gates.by_layer(gates)[-1])
        return f

    # ---- what is kept

    def capacity(self) -> dict[str, float]:
        """Weights between neurons in use, and norm layers of every task; the projector is not asked for answers."""
        total = sum(p.numel() for p in self.network.body.parameters())
        used = self.gates.by_layer(self.used)
        parts = [part for wire in self.body.wires for part in wire.share_in_use(used)]
        shared = sum(weight.numel() * float(share.mean()) for weight, share in parts)
        own = len(self.norms) * (total - sum(weight.numel() for weight, _ in parts))
        rows = torch.cat([used[wire.feeds] for wire in self.body.wires])
        return {"parameters": (shared + own) / total, "neurons": float(rows.double().mean())}

    def bytes_kept(self, n_classes: int) -> int:
        norm = sum(x.nbytes for x in norm_state(self.network.body).values())
        per_task, directions = 4 * len(self.used) + norm, 4 * self.turns * n_classes * self.config.dimension
        return self.setting.n_tasks * per_task + directions + bytes_of(self.projector)

    def state_dict(self) -> State:
        return super().state_dict() | {
            "projector": dict(self.projector.state_dict()),
            "gates": self.gates.state_dict(),
            "norms": list(self.norms),
            "directions": list(self.directions),
            "degrees": list(self.degrees),
        }

    def load_state_dict(self, state: State) -> None:
        for start, stop in state["blocks"][len(self.network.heads) :]:
            self.network.add_head(self.turns * (stop - start))
        super().load_state_dict(state)
        device = self.setting.device
        self.projector.load_state_dict(state["projector"])
        self.gates.load_state_dict(state["gates"])
        self.norms = [{name: x.to(device) for name, x in norm.items()} for norm in state["norms"]]
        self.directions = [x.to(device) for x in state["directions"]]
        self.degrees = list(state["degrees"])
        self._prepare()

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

from snv.components import Frozen, redraw
from snv.data import Task
from snv.errors import UserError
from snv.files import State
from snv.learners.base import Learner, Setting
from snv.learners.card import Card
from snv.learners.snv_config import IN_RUN, RETIRED, SNVConfig
from snv.networks import NORMS, load_norm, norm_state
from snv.neurons import Neurons, find_neurons, n_weights_outside, no_entries, own_weights
from snv.seeding import derived_seed, generator
from snv.shapes import Entries, Features, Images, Indices, Labels, Logits, Mask, Values
from snv.shapley import ESTIMATORS, MOST_PLAYERS, GradientSettings, estimate, gates_of_pair
from snv.shapley import told as told_of
from snv.subnetworks import (
    RULES,
    Certificate,
    Compact,
    Evidence,
    Link,
    Read,
    Statistics,
    Subnetwork,
    averaged,
    certify,
    changed_evidence,
    compact,
    coverage_budget,
    evidence_hashes,
    measure,
    norm_of,
    plan,
    probe_logits,
    reads,
    select,
    silenced,
    write_back,
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

    def __init__(self, setting: Setting, config: Any = None) -> None:
        super().__init__(setting, config)
        self.body = setting.network.body
        example = torch.zeros(2, *setting.preprocess.shape, device=setting.device)
        self.neurons = find_neurons(self.body, example, include=["*"])
        if self.config.estimator == "exact" and self.neurons.n > MOST_PLAYERS:
            raise UserError(
                f"learner.estimator=exact values up to {MOST_PLAYERS} neurons; this network has {self.neurons.n}. "
                "Use gradient, montecarlo or hybrid."
            )
        self.frozen: Mask = torch.zeros(self.neurons.n, dtype=torch.bool)  # B_t
        self.kept: list[Entries] = no_entries(self.neurons)  # of each tensor of `own_weights`, what may not move
        self.subnetworks: list[Subnetwork] = []
        self.values: list[Values] = []
        self.certificates: list[Certificate] = []
        self.statistics: list[Statistics] = []  # for telling tasks apart in CIL
        self.chosen: Subnetwork | None = None  # the current task's, while it consolidates
        self._held: Frozen | None = None
        self._small: Compact | None = None
        self._links: list[Link] = []
        self._cut_out: dict[int, Compact] = {}
        self._reads: dict[tuple[bytes, bool], list[Read]] = {}
        self._carried = torch.zeros(self.neurons.n, dtype=torch.float64)  # of the in-run estimator
        self._pairs = 0

    # ---- the course of a task

    def begin_task(self, task: Task) -> None:
        self._tell_what_fits()
        super().begin_task(task)
        if self.config.fresh and self.subnetworks:
            self._refresh_plastic()
        self._carried.zero_()
        self._pairs = 0
        self._hold()

    def n_outputs(self, block: range) -> int:
        return len(block) * (4 if self.config.rotations else 1)

    def _tell_what_fits(self) -> None:
        """Before a task starts: what it will get, and what to do if that is little."""
        n, t = self.neurons.n, len(self.subnetworks)
        free = int((~self.frozen).sum())
        if t == 0 and self.config.size in ("top-k", "remaining"):
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
                f"{n_weights_outside(self.neurons, self.kept):,}",
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
        share = 1 / self.setting.n_tasks if self.config.size == "even" else self.config.capacity
        among = int((~self.frozen).sum()) if self.config.size == "remaining" else self.neurons.n
        return int(share * among)

    def _require_plastic_layers(self) -> None:
        for layer, taken in self.neurons.by_layer(self.frozen):
            if (free := int((~taken).sum())) < self._tasks_left:
                raise UserError(
                    f"Task {len(self.subnetworks) + 1} does not fit: {layer.name} has {free} free neurons for "
                    f"{self._tasks_left} tasks, and learner.reuse=none forbids using frozen ones. Allow reuse, widen "
                    "the network or plan fewer tasks."
                )

    @property
    def _tasks_left(self) -> int:
        return max(1, self.setting.n_tasks - len(self.subnetworks))

    def _barred(self, values: Values) -> Mask:
        """Without reuse: frozen neurons, and of every layer those that later tasks will need."""
        barred = self.frozen.clone()
        for layer, taken in self.neurons.by_layer(self.frozen):
            mine = int((~taken).sum()) // self._tasks_left
            best = values[layer.neurons].masked_fill(taken, -math.inf).argsort(descending=True, stable=True)
            barred[layer.start + best[mine:]] = True
        return barred

    def _refresh_plastic(self) -> None:
        """New weights wherever no task reads them."""
        plastic = [~kept for kept in self.kept]
        redraw(self.neurons, plastic, generator(self.setting.seed, "fresh weights", len(self.subnetworks)))

    def _hold(self) -> None:
        """Frozen weights are put back after each step; a layer without any other is not trained at all."""
        self._held = _held([(own.tensor, kept) for own, kept in zip(own_weights(self.neurons), self.kept, strict=True)])

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
                self._freeze(task)

    def end_task(self, task: Task) -> None:
        if self.setting.scenario == "cil":
            with self.phase("statistics"):
                self.statistics.append(self._measure(task))
        t = len(self.certificates) - 1
        self.certificates[t] = dataclasses.replace(self.certificates[t], evidence=self._evidence_hashes(t))

    def _choose(self, task: Task) -> None:
        """Value the neurons on the task's validation images and keep the best."""
        images = self.setting.examples(task.val)
        labels = task.val.labels.to(self.setting.device) - task.block.start  # within the task's head
        shared = self.config.estimator in ("montecarlo", "truncated", "tmab", "hybrid", "exact", "regression")
        game = NeuronGame(
            self.network, images, labels, self.neurons, forward=self._newest_classes, share_prefixes=shared
        )
        values = self._value(game, derived_seed(self.setting.seed, "valuation", task.id))
        mask = select(
            values,
            self.neurons.layer_index,
            self._budget(values),
            self.config.layer_share,
            free=self.frozen if self.config.reuse == "free" else None,
            barred=self._barred(values) if self.config.reuse == "none" else None,
            largest=int(self.config.largest * self.neurons.n),
        )
        self.values.append(values)
        self.chosen = self._outside(Subnetwork(mask, game.means.detach().clone(), norm_state(self.body)))
        self._cut()

    def _outside(self, subnetwork: Subnetwork) -> Subnetwork:
        """What the task is told by other neurons: their means, or nothing."""
        return silenced(subnetwork, self.neurons) if self.config.outside == "silent" else subnetwork

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
        free = ~self.frozen
        candidates = free if self.config.reuse != "counted" and bool(free.any()) else None  # frozen ones come along
        n = self.neurons.n if candidates is None else int(candidates.sum())
        return {"k": min(n, max(len(self.neurons.layers), self._budget_new())), "candidates": candidates}

    def _tell_of_values(self, what: str, done: float, total: float) -> None:
        self.tell(f"value: {what}", done, total)

    def _budget(self, values: Values) -> int:
        """How many neurons the task may keep (new ones only, if reuse is free)."""
        wanted = self._budget_new()
        if self.config.size == "coverage":
            wanted = coverage_budget(values, self.config.coverage)
            if self.config.reuse == "free":
                best = values.argsort(descending=True, stable=True)[:wanted]
                wanted = int((~self.frozen[best]).sum())
        return max(len(self.neurons.layers), wanted)

    def _cut(self) -> None:
        """The chosen subnetwork as a small module to be trained; what is frozen of it is held."""
        assert self.chosen is not None
        shape = self.setting.preprocess.shape
        arguments = (self.neurons, self.chosen.mask, self.chosen.means, shape)
        with norm_of(self.body, self.chosen):
            self._small, self._links = compact(self.body, self.network.head(-1), *arguments)
        kept = {id(owned.tensor): entries for owned, entries in zip(own_weights(self.neurons), self.kept, strict=True)}
        blocks = []
        for link in self._links:
            for tensor, dense in zip(link.trained, (link.dense.weight, link.dense.bias), strict=False):
                if (entries := kept.get(id(dense))) is not None:
                    rows = entries[link.rows]
                    blocks.append((tensor, rows if rows.ndim == 1 else rows[:, link.columns]))
        self._held = _held(blocks)

    def _freeze(self, task: Task) -> None:
        """Back into the dense network, frozen and certified."""
        assert self.chosen is not None
        write_back(self._links)
        self.subnetworks.append(self._outside(dataclasses.replace(self.chosen, norm=norm_state(self.body))))
        self._count_frozen()
        self.chosen, self._small, self._links, self._held = None, None, [], None
        self._cut_out.clear()
        self.certificates.append(self.certify(len(self.subnetworks) - 1, self.setting.seed + task.id))
        self.verify()

    def _count_frozen(self) -> None:
        """B_t, the neurons of all tasks (Eq. 7), and the weights these tasks read."""
        tasks = range(len(self.subnetworks))
        self.frozen, self.kept = self._neurons_of(tasks), self._read_by(tasks)

    def _neurons_of(self, tasks: Iterable[int]) -> Mask:
        """The neurons that any of these tasks has."""
        found = torch.zeros(self.neurons.n, dtype=torch.bool)
        for t in tasks:
            found |= self.subnetworks[t].mask
        return found

    def _read_by(self, tasks: Iterable[int]) -> list[Entries]:
        """The entries of each tensor of `own_weights` that any of these tasks depends on."""
        entries = no_entries(self.neurons)
        for t in tasks:
            for part, mine in zip(self.reads(t), entries, strict=True):
                mine |= part.entries
        return entries

    # ---- one step

    def parameters(self, stage: Stage) -> Iterable[nn.Parameter]:
        moving = [self._small] if self._small is not None else [self.body, self.network.heads[-1]]
        return [p for module in moving for p in module.parameters() if p.requires_grad]

    def set_training(self, training: bool, stage: Stage) -> None:
        self.network.train(training and stage.name == "dense")
        if self._small is not None:
            self._small.train(training)

    def work(self, batch: Batch) -> str:
        return "with values" if self._carries(batch) else ""

    def task_logits(self, images: Images) -> Logits:
        """Of the current task's classes only, in TIL and CIL."""
        logits: Logits = self._small(images) if self._small is not None else self._newest(images)
        return self._classes(logits)

    def _newest(self, images: Images) -> Logits:
        """The whole network with the current task's head."""
        return self.network.classify(self.body(images), len(self.blocks) - 1)

    def _newest_classes(self, images: Images) -> Logits:
        return self._classes(self._newest(images))

    def _classes(self, logits: Tensor) -> Logits:
        """Of upright images: the outputs of class × rotation that stand for no rotation."""
        return logits[:, ::4] if self.config.rotations else logits

    def _offset(self) -> int:
        return self.blocks[-1].start

    def loss(self, batch: Batch) -> Tensor:
        if self.config.rotations:
            turns = torch.randint(4, (len(batch.labels),), generator=batch.rng("rotations")).to(batch.labels.device)
            images, labels = turned(batch.images, turns), 4 * (batch.labels - self._offset()) + turns
        else:
            images, labels = batch.images, batch.labels - self._offset()
        logits = self._small(images) if self._small is not None else self._newest(images)
        loss = F.cross_entropy(logits.float(), labels)
        if self._small is None or self.config.distil == 0:
            return loss
        with torch.no_grad():
            teacher = self._newest(images)
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
        forward = self._newest_classes
        game = NeuronGame(self.network, batch.images, labels, self.neurons, forward=forward, share_prefixes=False)
        gates = gates_of_pair(game.n, GradientSettings(), derived_seed(batch.seed, IN_RUN), self._pairs)
        self._carried += game.gradient(gates)[0].mean(0)
        self._pairs += 1

    # ---- prediction and proof

    def logits(self, images: Images, block: range | None) -> Logits:
        if block is None and self.subnetworks:
            return RULES[self.config.rule](self.evidence(images))
        if block is None or block not in self.blocks or self.blocks.index(block) >= len(self.subnetworks):
            return super().logits(images, block)
        return self._answer(self.blocks.index(block), images)[1]

    def evidence(self, images: Images) -> Evidence:
        """What each specialist says, for the rules of `snv.subnetworks.rules`."""

        def unmasked() -> Logits:
            return self._classes(self.network(images))

        if self.config.rule == "single-head":
            return Evidence([], [], [], None, unmasked)
        answers = [self._answer(t, images) for t in range(len(self.subnetworks))]
        features, logits, views = (list(part) for part in zip(*answers, strict=True))
        return Evidence(logits, features, self.statistics, views if self.config.rotations else None, unmasked)

    def _answer(self, t: int, images: Images) -> tuple[Features, Logits, Tensor]:
        """Task t's specialist: its features, its class logits, and what it says of each rotation (if trained)."""
        specialist = self.specialist(t)
        inside = specialist.body(images)
        features, logits = specialist.in_order(inside), specialist.head(inside)
        if not self.config.rotations:
            return features, logits, logits[None]
        others = [specialist(torch.rot90(images, r, (2, 3))) for r in range(1, 4)]
        views = torch.stack([logits, *others])
        return features, averaged(views), views

    def put_in_place(self, t: int) -> None:
        load_norm(self.body, self.subnetworks[t].norm)

    def specialist(self, t: int) -> Compact:
        """Task t's subnetwork, cut out of the dense network as it is now."""
        if t not in self._cut_out:
            subnetwork = self.subnetworks[t]
            arguments = (self.neurons, subnetwork.mask, subnetwork.means, self.setting.preprocess.shape)
            with self.phase("cut"), torch.inference_mode(False), torch.no_grad(), norm_of(self.body, subnetwork):
                small, _ = compact(self.body, self.network.head(t), *arguments)
            self._cut_out[t] = small.eval()
        return self._cut_out[t]

    def certify(self, t: int, seed: int | None = None) -> Certificate:
        """The fingerprints of task t as it is now, by default on the probe images of its certificate."""
        seed = self.certificates[t].seed if seed is None else seed
        found = certify(*self._subnetwork(t), self.reads(t), self.setting.preprocess.shape, seed)
        return dataclasses.replace(found, evidence=self._evidence_hashes(t))

    def _evidence_hashes(self, t: int) -> tuple[str, ...]:
        """Of what task t brings to answers without the task, once that is measured."""
        if t >= len(self.statistics):
            return ()
        return evidence_hashes(self.statistics[t], [certificate.tensors for certificate in self.certificates[: t + 1]])

    def probe_logits(self, t: int) -> Logits:
        """Answers of task t to the probe images of its certificate."""
        with torch.inference_mode():
            return probe_logits(*self._subnetwork(t), self.setting.preprocess.shape, self.certificates[t].seed)

    def reads(self, t: int) -> list[Read]:
        """Every weight of the body that task t depends on."""
        subnetwork = self.subnetworks[t]
        key = subnetwork.mask.numpy().tobytes(), subnetwork.silent  # they depend on nothing else of it
        if key not in self._reads:
            self._reads[key] = reads(*self._subnetwork(t), self.setting.preprocess.shape)
        return self._reads[key]

    def _subnetwork(self, t: int) -> tuple[nn.Module, nn.Linear, Neurons, Subnetwork]:
        return self.body, self.network.head(t), self.neurons, self.subnetworks[t]

    def changed(self) -> list[int]:
        """The tasks that are not, bit for bit, what they were when they were learned."""
        return [t for t in range(len(self.certificates)) if self._changes(t)]

    def _changes(self, t: int) -> list[str]:
        """What of task t is not what it was, in words."""
        issued, now = self.certificates[t], self.certify(t)
        same_sums = (now.threads, now.machine) == (issued.threads, issued.machine)
        found = ["weights"] if now.tensors != issued.tensors else []
        found += ["answers"] if same_sums and now.logits != issued.logits else []
        return found + (changed_evidence(issued.evidence, now.evidence) if issued.evidence else [])

    def verify(self) -> None:
        """Stop if any earlier task changed by a single bit."""
        if changed := self.changed():
            raise RuntimeError(
                f"Task {changed[0] + 1} is not what it was when it was frozen: {', '.join(self._changes(changed[0]))} "
                "changed. Nothing was saved after the last checkpoint, which is intact; please report this."
            )

    def forget(self, t: int) -> None:
        """Remove task t: its head, its subnetwork, every weight no other task reads; all others stay as they are."""
        others = self._read_by(s for s in range(len(self.subnetworks)) if s != t)
        unread = [~entries for entries in others]  # dense phases trained all of them, also with this task's images
        redraw(self.neurons, unread, generator(self.setting.seed, "forgotten", t, len(self.subnetworks)))
        for kept in (
            self.blocks,
            self.subnetworks,
            self.values,
            self.valuations,
            self.certificates,
            self.statistics,
        ):
            if kept:
                del kept[t]
        self.network.heads = nn.ModuleList(head for s, head in enumerate(self.network.heads) if s != t)
        for later in self.statistics[t:]:
            del later.means[t]
        self.certificates[t:] = [later.without_specialist(t) for later in self.certificates[t:]]
        starts = [sum(len(b) for b in self.blocks[:s]) for s in range(len(self.blocks))]
        self.blocks = [range(start, start + len(b)) for start, b in zip(starts, self.blocks, strict=True)]
        self._replace_norm()
        self._cut_out.clear()
        self._count_frozen()
        self._hold()

    def _replace_norm(self) -> None:
        """The dense network's own norm layers are those of the newest task: take another's, or new ones."""
        if self.subnetworks:
            load_norm(self.body, self.subnetworks[-1].norm)
            self._wake(~self.subnetworks[-1].mask)
            return
        for module in self.body.modules():
            if isinstance(module, NORMS):
                module.reset_parameters()

    @torch.no_grad()
    def _wake(self, neurons: Mask) -> None:
        """Norm layers of these neurons as in a new network: from silent ones nothing would be learned."""
        for owned in self.neurons.owned:
            if owned.role == "norm":
                owned.tensor[neurons[owned.owner].to(owned.tensor.device)] = 1.0 if owned.attribute == "weight" else 0.0

    def capacity(self) -> dict[str, float]:
        total = sum(p.numel() for p in self.body.parameters())
        tasks = range(len(self.subnetworks))
        in_use = self._neurons_of(tasks)
        copies = sum(self._n_norm(subnetwork.mask) for subnetwork in self.subnetworks)
        unused = n_weights_outside(self.neurons, self._read_by(tasks))
        unused += self._n_norm(torch.ones_like(in_use)) - copies
        return {"parameters": 1 - unused / total, "neurons": float(in_use.double().mean())}

    def _n_norm(self, mask: Mask) -> int:
        """Scales and shifts of the norm layers behind some neurons."""
        return sum(int(mask[owned.owner].sum()) for owned in self.neurons.owned if owned.role == "norm")

    # ---- what is kept

    def bytes_kept(self, n_classes: int) -> int:
        """Mask, value and constants per neuron, norm state; in CIL half a covariance, and means in all specialists."""
        t, f = self.setting.n_tasks, self.body.n_features
        responses = sum(layer.n * layer.width for layer in self.neurons.layers)
        per_task = 9 * self.neurons.n + 4 * responses + sum(x.nbytes for x in norm_state(self.body).values())
        cil = 2 * f * f * t + 2 * f * n_classes * t if self.setting.scenario == "cil" else 0
        return t * per_task + cil

    def state_dict(self) -> State:
        return super().state_dict() | {
            "frozen": self.frozen,
            "subnetworks": [subnetwork.state() for subnetwork in self.subnetworks],
            "values": list(self.values),
            "valuations": list(self.valuations),
            "certificates": [certificate.state() for certificate in self.certificates],
            "statistics": [statistics.state() for statistics in self.statistics],
            "carried": self._carried,
            "pairs": self._pairs,
            "chosen": self.chosen.state() if self.chosen else None,
            "small": dict(self._small.state_dict()) if self._small else None,
        }

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict(state)
        device = self.setting.device
        self.frozen = state["frozen"]
        self.subnetworks = [Subnetwork.from_state(kept, device) for kept in state["subnetworks"]]
        self.kept = self._read_by(range(len(self.subnetworks)))
        self.values = list(state["values"])
        self.valuations = list(state.get("valuations", [None] * len(self.values)))  # older checkpoints have none
        self.certificates = [Certificate.from_state(kept) for kept in state["certificates"]]
        self.statistics = [Statistics.from_state(kept, device) for kept in state["statistics"]]
        self._carried, self._pairs = state["carried"].clone(), state["pairs"]
        self._cut_out.clear()
        if state["chosen"] is None:
            self.chosen, self._small, self._links = None, None, []
            self._hold()
        else:
            self.chosen = Subnetwork.from_state(state["chosen"], device)
            if self._small is None:
                self._cut()
            assert self._small is not None
            self._small.load_state_dict(state["small"])

    @torch.no_grad()
    def _measure(self, task: Task) -> Statistics:
        """What is kept for CIL of the task's training images, by its own specialist and all before it."""
        rng = generator(self.setting.seed, "measured images", task.id)
        rows = sample_of_all(task.train.labels, torch.randperm(len(task.train), generator=rng), N_MEASURED)
        chunks = rows.split(EVALUATION_BATCH)
        images = self.setting.examples(task.train)
        features: list[list[Tensor]] = [[] for _ in self.subnetworks]
        logits, views = [], []
        for i, part in enumerate(images.batches(chunks)):
            self.tell("statistics", i, len(chunks))
            for t, of_task in enumerate(features):
                of_task.append(self.specialist(t).features(part))
            _, said, turned_too = self._answer(len(self.subnetworks) - 1, part)
            logits.append(said)
            views.append(turned_too)
        labels = task.train.labels[rows].to(self.setting.device) - task.block.start
        of_views = torch.cat(views, dim=1) if self.config.rotations else None
        with self.counted(f"statistics {task.id}", len(labels)):
            joined = [torch.cat(parts) for parts in features]
            return measure(labels, joined, torch.cat(logits), len(task.block), of_views)


def _held(blocks: list[tuple[Tensor, Entries]]) -> Frozen:
    """What is frozen of some tensors, held; those frozen altogether are not trained, so no optimiser has them."""
    for tensor, frozen in blocks:
        tensor.requires_grad_(not bool(frozen.all()))
    return Frozen((tensor, frozen) for tensor, frozen in blocks if tensor.requires_grad)


def sample_of_all(labels: Labels, order: Indices, n: int) -> Indices:
    """The first ``n`` rows of an order, and the first of every class that is not among them."""
    first: dict[int, int] = {}
    for place, label in enumerate(labels[order].tolist()):
        first.setdefault(label, place)
    late = [place for place in first.values() if place >= n]
    return torch.cat([order[:n], order[torch.tensor(late, dtype=torch.long)]])


def turned(images: Images, turns: Labels) -> Images:
    """Each image rotated by its number of quarter turns."""
    out = images.clone()
    for r in range(1, 4):
        out[turns == r] = torch.rot90(images[turns == r], r, (2, 3))
    return out

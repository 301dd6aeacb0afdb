"""The one training loop: epochs, early stopping on the task's validation loss, best epoch restored.

All randomness of a step is a function of (seed, task, stage, epoch, step), so training can be cut at any step and
continued with the same bits: the state of the learner, of the optimiser and `Progress` are all that is kept.

An epoch that goes wrong (`snv.training.faults`) begins anew, with a lower rate for the rest of its stage; once only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from snv.data import Task
from snv.errors import ShortOfMemoryError
from snv.files import State, cloned
from snv.machine import halving, is_shortage, ranks, told
from snv.networks import Network
from snv.seeding import derived_seed, generator
from snv.shapes import Images, Indices, Labels
from snv.training.faults import EVERY, SLOWER, WentWrong, check_loss, check_outcome, diverged, rate_lowered, still_head
from snv.training.parallel import differentiate, divided
from snv.training.reporter import Reporter
from snv.training.setting import Setting
from snv.training.settings import TrainSettings
from snv.training.stage import Batch, Stage


@runtime_checkable
class Trainable(Protocol):
    """What the loop asks of a learner."""

    at_once: int

    @property
    def setting(self) -> Setting: ...
    @property
    def network(self) -> Network: ...
    @property
    def reporter(self) -> Reporter: ...
    def parameters(self, stage: Stage) -> Iterable[nn.Parameter]: ...
    def set_training(self, training: bool, stage: Stage) -> None: ...
    def step(self, batch: Batch, optimizer: torch.optim.Optimizer) -> Tensor: ...
    def validation(self, images: Images, labels: Labels, stage: Stage) -> tuple[Tensor, Tensor]: ...
    def state_dict(self) -> State: ...
    def load_state_dict(self, state: State) -> None: ...


@dataclass
class Progress:
    """Where a stage stands."""

    epoch: int = 0
    step: int = 0
    loss: Tensor = field(default_factory=lambda: torch.zeros(()))  # summed over the epoch's images so far
    images: int = 0
    best_loss: float = math.inf
    best_epoch: int = -1
    best_state: State = None
    good: State = None  # learner and optimiser as the epoch began
    rate: float = 1.0  # factor of every learning rate
    first_loss: float | None = None  # of the stage
    head: list[Tensor] = field(default_factory=list)  # the newest, as the stage began, if the stage trains it

    def state_dict(self) -> State:
        """What is both the best epoch's end and this one's beginning is there once."""
        state = dict(vars(self))
        if self.good is not None and self.good["learner"] is self.best_state:
            state["good"] = {**self.good, "learner": None}
        return state

    @classmethod
    def from_state(cls, state: State) -> Progress:
        at = cls(**state)
        if at.good is not None and at.good["learner"] is None:
            at.good = {**at.good, "learner": at.best_state}
        return at


class Training:
    """One stage under way: `run` trains it to its end; `state_dict` at any step is enough to go on later."""

    def __init__(self, learner: Trainable, task: Task, stage: Stage, state: State | None = None) -> None:
        """``state`` is that of a training to go on with."""
        self.learner, self.task, self.stage = learner, task, stage
        self.settings, self.train = stage.settings, task.train if stage.train is None else stage.train
        device = learner.setting.device
        self.optimizer = make_optimizer(learner.parameters(stage), self.settings)
        if state is None:
            head = [part.detach().clone() for part in self._head().values()]
            self.progress = Progress(loss=torch.zeros((), device=device), head=head)
        else:
            self.progress = Progress.from_state(state["progress"])
            self.progress.loss = self.progress.loss.to(device)
            self.optimizer.load_state_dict(state["optimizer"])

    def state_dict(self) -> State:
        return {"progress": self.progress.state_dict(), "optimizer": self.optimizer.state_dict()}

    def run(self) -> None:
        """Train to the cap or until patience ends, then bring the learner back to its best epoch."""
        at = self.progress
        while at.epoch < self.settings.epochs and not self._out_of_patience():
            self.train_one_epoch()
        self._look_at_head()
        if at.best_state is not None:
            self.learner.load_state_dict(at.best_state)

    def train_one_epoch(self) -> None:
        """The current epoch to its end, with validation; or back to its beginning, if it goes wrong."""
        at = self.progress
        self._remember()
        try:
            self._train_steps()
            self._finish_epoch(float(at.loss) / at.images)
        except WentWrong as found:
            self._go_back(str(found))
            return
        at.epoch, at.step, at.images, at.loss = at.epoch + 1, 0, 0, torch.zeros_like(at.loss)

    def _remember(self) -> None:
        """Where an epoch that goes wrong begins anew."""
        at = self.progress
        if at.step == 0 or at.good is None:  # checkpoints of before have none
            new_best = at.best_state is not None and at.best_epoch == at.epoch - 1
            learner = at.best_state if new_best else cloned(self.learner.state_dict())
            at.good = {"learner": learner, "optimizer": cloned(self.optimizer.state_dict())}

    def _go_back(self, found: str) -> None:
        """To where the epoch began, with a lower rate from now on; the second time there is no going on."""
        at, again = self.progress, self.progress.rate < 1
        where = {"task": self.task.id + 1, "stage": self.stage.name, "epoch": at.epoch + 1, "step": at.step}
        self.learner.load_state_dict(cloned(at.good["learner"]))
        self.optimizer = make_optimizer(self.learner.parameters(self.stage), self.settings)
        self.optimizer.load_state_dict(cloned(at.good["optimizer"]))
        at.step, at.images, at.loss = 0, 0, torch.zeros_like(at.loss)
        before = at.rate * self.settings.lr
        if again:
            raise diverged(where, found, self.settings, before)
        at.rate = SLOWER
        self.learner.reporter.warn(rate_lowered(where, found, before, at.rate * self.settings.lr))

    def _out_of_patience(self) -> bool:
        """Validation loss has not improved for ``patience`` epochs in a row."""
        waited = self.progress.epoch - 1 - self.progress.best_epoch
        return 0 < (self.settings.patience or 0) <= waited

    def _train_steps(self) -> None:
        """The rest of one epoch, from ``progress.step`` on."""
        at, reporter = self.progress, self.learner.reporter
        self.learner.set_training(True, self.stage)
        for batch in self._batches():
            _set_lr(self.optimizer, at.rate * self.stage.lr_at(at.epoch + at.step / batch.n_steps))
            work = f"update {self.task.id} {self.stage.name}"
            counted = reporter.counted(work, len(batch.labels))
            with counted, reporter.step(), divided(batch.part), _within_memory(batch):
                loss = self.learner.step(batch, self.optimizer)
            at.loss = at.loss + loss.detach().float() * batch.size
            at.images += batch.size
            at.step += 1
            self._look_at_loss(loss, batch)
            reporter.on_step(self)

    def _look_at_loss(self, loss: Tensor, batch: Batch) -> None:
        """Now and then, before anything of the step is kept."""
        at = self.progress
        if at.first_loss is None:
            at.first_loss = float(loss)
        if at.step % EVERY == 0 or at.step == batch.n_steps:
            check_loss(float(at.loss) / at.images, float(loss), at.first_loss)

    def _head(self) -> dict[str, nn.Parameter]:
        """The parts of the newest head that this stage trains."""
        trained = {id(p) for group in self.optimizer.param_groups for p in group["params"] if p.requires_grad}
        parts = {name: p for head in self.learner.network.heads[-1:] for name, p in head.named_parameters()}
        return {name: p for name, p in parts.items() if id(p) in trained} if len(self.task.block) > 1 else {}

    def _look_at_head(self) -> None:
        """A head that a stage trains is not, in any part, what it was when the stage began."""
        pairs = zip(self._head().items(), self.progress.head, strict=False)
        still = [name for (name, now), before in pairs if torch.equal(now, before.to(now.device))]
        if still:
            self.learner.reporter.warn(still_head(self.task.id + 1, self.stage.name, still))

    def _batches(self) -> Iterator[Batch]:
        at, setting = self.progress, self.learner.setting
        where = (self.task.id, self.stage.name, at.epoch)
        order = epoch_order(len(self.train), self.settings.batch_size, generator(setting.seed, "order", *where))
        parts = [ranks.part_of(len(index)) for index in order[at.step :]]
        rest = [
            index if part is None else index[part.rows] for index, part in zip(order[at.step :], parts, strict=True)
        ]
        for index, part, (pixels, labels) in zip(rest, parts, self.train.batches(rest), strict=True):
            seed = derived_seed(setting.seed, "step", *where, at.step)
            torch.manual_seed(seed + ranks.rank())  # for layers that draw by themselves, such as dropout
            yield Batch(
                images=setting.augmented(pixels, self.settings, generator(seed, "augment"), part),
                labels=labels.to(setting.device),
                pixels=pixels,
                index=index,
                stage=self.stage,
                task=self.task.id,
                epoch=at.epoch,
                step=at.step,
                n_steps=len(order),
                seed=seed,
                part=part,
            )

    def _finish_epoch(self, train_loss: float) -> None:
        """Validate, log, remember the state if it is the best so far."""
        at = self.progress
        val_loss, val_accuracy = self._validate()
        check_outcome(val_loss, [p for group in self.optimizer.param_groups for p in group["params"]])
        self.learner.reporter.on_epoch(
            {
                "task": self.task.id + 1,
                "stage": self.stage.name,
                "epoch": at.epoch + 1,
                "lr": at.rate * self.stage.lr_at(at.epoch),
                "train_loss": train_loss,
                "val_loss": val_loss,
                "val_accuracy": val_accuracy,
                "images": at.images,
            }
        )
        if val_loss < at.best_loss:
            at.best_loss, at.best_epoch = val_loss, at.epoch
            if self.settings.patience:
                at.best_state = cloned(self.learner.state_dict())

    def _validate(self) -> tuple[float, float]:
        """Mean loss and accuracy in percent on the task's validation split."""
        found, self.learner.at_once = halving(self._validated, self.learner.at_once)
        return found

    @torch.no_grad()
    def _validated(self, at_once: int) -> tuple[float, float]:
        """The same with so many images at a time."""
        self.learner.set_training(False, self.stage)
        loss, correct = 0.0, 0.0
        for images, labels in self.learner.setting.prepared(self.task.val, batch=at_once, shared=True):
            with self.learner.reporter.counted(f"validate {self.task.id} {self.stage.name}", len(labels)):
                batch_loss, batch_correct = self.learner.validation(images, labels, self.stage)
            loss += float(batch_loss) * len(labels)
            correct += float(batch_correct)
        loss, correct = ranks.total(loss, correct)
        return loss / len(self.task.val), 100 * correct / len(self.task.val)


def epoch_order(n: int, batch_size: int, rng: torch.Generator) -> list[Indices]:
    """A fresh shuffle in batches; a last batch of one image joins the one before it (BatchNorm needs two)."""
    batches = list(torch.randperm(n, generator=rng).split(batch_size))
    if len(batches) > 1 and len(batches[-1]) == 1:
        batches[-2:] = [torch.cat(batches[-2:])]
    return batches


def make_optimizer(parameters: Iterable[nn.Parameter], settings: TrainSettings) -> torch.optim.Optimizer:
    """A fresh optimiser: moments carried over would make a task depend on how long the last one trained."""
    parameters, lr, decay = list(parameters), settings.lr, settings.weight_decay
    match settings.optimizer:
        case "adam":
            return torch.optim.Adam(parameters, lr=lr, weight_decay=decay)
        case "adamw":
            return torch.optim.AdamW(parameters, lr=lr, weight_decay=decay)
        case "sgd":
            return torch.optim.SGD(parameters, lr=lr, weight_decay=decay, momentum=settings.momentum)


@contextmanager
def _within_memory(batch: Batch) -> Iterator[None]:
    """A step that needs too much says so in a way of its own: it was not done, and leaves the learner half changed."""
    try:
        yield
    except Exception as error:
        if not is_shortage(error):
            raise
        raise ShortOfMemoryError(len(batch.labels), told(error)) from error


def descend(
    loss: Tensor | Iterable[Tensor],
    optimizer: torch.optim.Optimizer,
    clip_norm: float | None = None,
    before: Callable[[], None] = lambda: None,
    after: Callable[[], None] = lambda: None,
) -> Tensor:
    """One step downhill; returns the loss it started from: of the whole batch, if processes share it.

    ``before`` may change the gradients that the optimiser gets, and ``after`` look at them once more. A loss may come
    as the terms of a sum: see `differentiate`.
    """
    optimizer.zero_grad()
    total = differentiate(loss, optimizer)
    before()
    if clip_norm is not None:
        nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], clip_norm)
    optimizer.step()
    after()
    optimizer.zero_grad()  # memory that the next forward pass can use
    return total


def _set_lr(optimizer: torch.optim.Optimizer, lr: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = lr

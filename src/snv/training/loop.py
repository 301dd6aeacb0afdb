"""The one training loop: epochs, early stopping on the task's validation loss, best epoch restored.

All randomness of a step is a function of (seed, task, stage, epoch, step), so training can be cut at any step and
continued with the same bits: the state of the learner, of the optimiser and `Progress` are all that is kept.
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
from snv.errors import DivergedError, ShortOfMemoryError
from snv.files import State, cloned
from snv.seeding import derived_seed, generator
from snv.shapes import Images, Indices, Labels
from snv.shortage import halving, is_shortage, told
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

    def state_dict(self) -> State:
        return dict(vars(self))

    @classmethod
    def from_state(cls, state: State) -> Progress:
        return cls(**state)


class Training:
    """One stage under way: `run` trains it to its end; `state_dict` at any step is enough to go on later."""

    def __init__(self, learner: Trainable, task: Task, stage: Stage, state: State | None = None) -> None:
        """``state`` is that of a training to go on with."""
        self.learner, self.task, self.stage = learner, task, stage
        self.settings, self.train = stage.settings, task.train if stage.train is None else stage.train
        device = learner.setting.device
        self.optimizer = make_optimizer(learner.parameters(stage), self.settings)
        self.progress = Progress(loss=torch.zeros((), device=device))
        if state is not None:
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
        if at.best_state is not None:
            self.learner.load_state_dict(at.best_state)

    def train_one_epoch(self) -> None:
        """The current epoch to its end, with validation."""
        at = self.progress
        self._train_steps()
        self._finish_epoch(float(at.loss) / at.images)
        at.epoch, at.step, at.images = at.epoch + 1, 0, 0
        at.loss = torch.zeros_like(at.loss)

    def _out_of_patience(self) -> bool:
        """Validation loss has not improved for ``patience`` epochs in a row."""
        waited = self.progress.epoch - 1 - self.progress.best_epoch
        return 0 < (self.settings.patience or 0) <= waited

    def _train_steps(self) -> None:
        """The rest of one epoch, from ``progress.step`` on."""
        at, reporter = self.progress, self.learner.reporter
        self.learner.set_training(True, self.stage)
        for batch in self._batches():
            _set_lr(self.optimizer, self.stage.lr_at(at.epoch + at.step / batch.n_steps))
            work = f"update {self.task.id} {self.stage.name}"
            with reporter.counted(work, len(batch.labels)), reporter.step(), _within_memory(batch):
                loss = self.learner.step(batch, self.optimizer)
            at.loss = at.loss + loss.detach().float() * len(batch.labels)
            at.images += len(batch.labels)
            at.step += 1
            reporter.on_step(self)

    def _batches(self) -> Iterator[Batch]:
        at, setting = self.progress, self.learner.setting
        where = (self.task.id, self.stage.name, at.epoch)
        order = epoch_order(len(self.train), self.settings.batch_size, generator(setting.seed, "order", *where))
        rest = order[at.step :]
        for index, (pixels, labels) in zip(rest, self.train.batches(rest), strict=True):
            seed = derived_seed(setting.seed, "step", *where, at.step)
            torch.manual_seed(seed)  # for layers that draw by themselves, such as dropout
            yield Batch(
                images=setting.augmented(pixels, self.settings, generator(seed, "augment")),
                labels=labels.to(setting.device),
                pixels=pixels,
                index=index,
                stage=self.stage,
                task=self.task.id,
                epoch=at.epoch,
                step=at.step,
                n_steps=len(order),
                seed=seed,
            )

    def _finish_epoch(self, train_loss: float) -> None:
        """Validate, log, remember the state if it is the best so far."""
        at = self.progress
        val_loss, val_accuracy = self._validate()
        self.learner.reporter.on_epoch(
            {
                "task": self.task.id + 1,
                "stage": self.stage.name,
                "epoch": at.epoch + 1,
                "lr": self.stage.lr_at(at.epoch),
                "train_loss": train_loss if math.isfinite(train_loss) else None,
                "val_loss": val_loss if math.isfinite(val_loss) else None,
                "val_accuracy": val_accuracy,
                "images": at.images,
            }
        )
        if not (math.isfinite(train_loss) and math.isfinite(val_loss)):
            raise DivergedError(
                f"Training task {self.task.id + 1} diverged: in epoch {at.epoch + 1} the training loss is {train_loss} "
                f"and the validation loss {val_loss}. Lower train.lr (now {self.settings.lr}) or set train.clip_norm."
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
        for images, labels in self.learner.setting.prepared(self.task.val, batch=at_once):
            with self.learner.reporter.counted(f"validate {self.task.id} {self.stage.name}", len(labels)):
                batch_loss, batch_correct = self.learner.validation(images, labels, self.stage)
            loss += float(batch_loss) * len(labels)
            correct += float(batch_correct)
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
    """One step downhill; returns the loss it started from.

    ``before`` may change the gradients that the optimiser gets, and ``after`` look at them once more. A loss may come
    as the terms of a sum: see `backward`.
    """
    optimizer.zero_grad()
    total = backward(loss)
    before()
    if clip_norm is not None:
        nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], clip_norm)
    optimizer.step()
    after()
    optimizer.zero_grad()  # memory that the next forward pass can use
    return total


def backward(loss: Tensor | Iterable[Tensor]) -> Tensor:
    """Add the loss's gradients to those there are and return its value; of terms, one graph is alive at a time."""
    values = []
    for term in [loss] if isinstance(loss, Tensor) else loss:
        term.backward()
        values.append(term.detach())
    return values[0] if len(values) == 1 else torch.stack(values).sum()


def _set_lr(optimizer: torch.optim.Optimizer, lr: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = lr

"""Prediction Error-based Classification (Zając et al., 2024): a class is what its student imitates best."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from snv.data import Task
from snv.errors import UserError
from snv.files import State
from snv.learners.base import Learner
from snv.learners.card import Card
from snv.learners.checks import check_least
from snv.learners.grids import LOW_RATES, paper_presets
from snv.networks import (
    Body,
    Imitator,
    Network,
    Patches,
    answers,
    bytes_of,
    n_parameters,
    n_units,
    own_answers,
    patches,
)
from snv.seeding import generator
from snv.shapes import Features, Images, Labels, Logits
from snv.training import Batch, Setting, Stage, descend

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PECConfig:
    """Learning rate (1e-3 in both papers), batch size and the fixed number of epochs are those of training."""

    width: int = 40  # filters of a student; the authors' for CIFAR-100, where 100 students make up one ResNet-18
    teacher: int = 100  # times as many filters has the teacher; the authors'
    grid: int = 4  # filters answer by their means over grid × grid parts of the image; the authors'
    outputs: int = 172  # d, what a student imitates; the authors'
    schedule: Literal["linear", "as train"] = "linear"  # the authors': the learning rate falls to 0 over a task
    strength: float = 1.0  # λ of the paper's grid; a factor of every loss, so no setting at all under Adam

    def __post_init__(self) -> None:
        check_least(self, 1, "width", "teacher", "grid", "outputs")
        if self.strength <= 0:
            raise UserError(f"learner.strength is positive; got {self.strength}. Leave it at 1: it changes nothing.")
        if self.strength != 1:
            log.info("learner.strength multiplies every loss, which Adam without weight decay does not notice")


# ---- the method


def errors(said: Features, targets: Features) -> Float[Tensor, " b"]:
    """(1/d)‖g(x) − h(x)‖² for each image."""
    return (said - targets).square().mean(1)


def class_losses(mistakes: Float[Tensor, " b"], counts: list[int]) -> Tensor:
    """Σ_c L_c, each L_c the mean error over the images of its own class, so that no student feels another."""
    return torch.stack([part.mean() for part in mistakes.split(counts)]).sum()


def scores(students: Iterable[Imitator], seen: Patches, targets: Features) -> Logits:
    """−(1/d)‖g_c(x) − h(x)‖² for each student; one after the other, so that a score never depends on later classes."""
    return torch.stack([-errors(answers(student, seen), targets) for student in students], dim=1)


# ---- the wiring


class Students(Body):
    """One student per class, all of which start from the same weights; takes the place of the shared network."""

    def __init__(self, teacher: Imitator) -> None:
        super().__init__()
        self.classes = nn.ModuleList()
        self._outside = (teacher,)  # neither trained, counted nor saved with the students: its seed is enough

    @property
    def teacher(self) -> Imitator:
        return self._outside[0]

    def forward(self, images: Images) -> Features:
        """The scores of all classes."""
        return self.of(range(len(self.classes)), images)

    def of(self, classes: Iterable[int], images: Images) -> Logits:
        """The scores of some classes."""
        some = []
        for part in images.split(64):
            seen = self.look(part)
            some.append(scores(self.pick(classes), seen, self.ask(seen)))
        return torch.cat(some)

    def look(self, images: Images) -> Patches:
        return patches(images, self.teacher.grid)

    def ask(self, seen: Patches) -> Features:
        """h(x): the targets."""
        return answers(self.teacher, seen)

    def pick(self, classes: Iterable[int]) -> list[Imitator]:
        return [cast(Imitator, self.classes[c]) for c in classes]


class PEC(Learner[PECConfig]):
    """A small student per class learns to imitate one random teacher on its class; the best imitation wins.

    Every task trains for the same number of epochs without augmentation: errors of different tasks are compared, and
    early stopping would give the longest-trained task the smallest ones. So what the teacher says is asked once per
    image, in a stage of its own. All in float32: errors are small differences. `clip_norm` is left out: a norm over all
    students would tie them to each other.
    """

    card = Card(
        title="PEC (prediction error-based classification)",
        paper="Zając et al., 2024",
        page="pec",
        scenarios=("cil",),
        memory="one student per class; the teacher follows from the seed",
        grows=True,
        one_network=False,
        space={"train.lr": LOW_RATES, "learner.strength": (0.1, 0.5, 1, 5)},
        idle={"learner.strength": "a factor of every loss, which Adam does not notice"},
        presets=paper_presets(1e-3, {"learner.strength": 1}, imagenet={"learner.strength": 0.5}),
    )
    Config: ClassVar[type] = PECConfig

    def __init__(self, setting: Setting, config: PECConfig | None = None) -> None:
        super().__init__(setting, config)
        self.students = Students(self._imitator(self.config.width * self.config.teacher, "teacher"))
        self.network = Network(self.students, setting.seed)
        self.targets: dict[str, Tensor] = {}  # h of the task's images while it is learned, by split
        self._at = 0  # how many validation images were seen in this pass

    def _imitator(self, width: int, role: str) -> Imitator:
        config, rng = self.config, generator(self.setting.seed, role)
        made = Imitator(self.setting.preprocess.shape[0], width, config.grid, config.outputs, rng)
        return made.to(self.setting.device)

    # ---- the course of a task

    def begin_task(self, task: Task) -> None:
        self.blocks.append(task.block)
        self._admit()
        lengths = {"train": len(task.train), "val": len(task.val)}
        self.targets = {
            name: torch.zeros(n, self.config.outputs, device=self.setting.device) for name, n in lengths.items()
        }

    def _admit(self) -> None:
        """A fresh student for every class that has none."""
        for _ in range(len(self.students.classes), self.blocks[-1].stop if self.blocks else 0):
            self.students.classes.append(self._imitator(self.config.width, "student"))

    def stage(self, task: Task, index: int) -> Stage | None:
        """First the teacher is asked, then the students learn."""
        train = dataclasses.replace(self.setting.train, patience=0, augment=False)
        stages = [Stage("teacher", dataclasses.replace(train, epochs=1)), Stage("train", train)]
        return stages[index] if index < len(stages) else None

    def end_task(self, task: Task) -> None:
        self.targets = {}

    # ---- one step

    def parameters(self, stage: Stage) -> Iterable[nn.Parameter]:
        return [p for student in self.students.pick(self.blocks[-1]) for p in student.parameters()]

    def set_training(self, training: bool, stage: Stage) -> None:
        super().set_training(training, stage)
        self._at = 0

    def step(self, batch: Batch, optimizer: torch.optim.Optimizer) -> Tensor:
        """One update of each student that has images in the batch, as if it had an optimiser of its own."""
        order = batch.labels.argsort(stable=True)
        classes, counts = batch.labels.unique(return_counts=True)
        seen = self.students.look(batch.images[order])
        if batch.stage.name == "teacher":
            self.targets["train"][batch.index[order.cpu()]] = self.students.ask(seen)
        said = own_answers(self.students.pick(classes.tolist()), counts.tolist(), seen)
        mistakes = errors(said, self.targets["train"][batch.index[order.cpu()]])
        if batch.stage.name == "train":
            self._decay(batch, optimizer)
            loss = self.config.strength * class_losses(mistakes, counts.tolist())
            descend(loss, optimizer)
        return mistakes.detach().mean()

    def _decay(self, batch: Batch, optimizer: torch.optim.Optimizer) -> None:
        """The learning rate, which the loop sets anew for every step, on its line down to 0."""
        if self.config.schedule == "linear":
            done = (batch.epoch + batch.step / batch.n_steps) / batch.stage.settings.epochs
            for group in optimizer.param_groups:
                group["lr"] *= 1 - done

    def validation(self, images: Images, labels: Labels, stage: Stage) -> tuple[Tensor, Tensor]:
        """Mean error of the right students, and the right answers among the classes of the task."""
        seen = self.students.look(images)
        rows = slice(self._at, self._at + len(labels))
        self._at = rows.stop
        if stage.name == "teacher":
            self.targets["val"][rows] = self.students.ask(seen)
        marks = scores(self.students.pick(self.blocks[-1]), seen, self.targets["val"][rows])
        own = labels - self.blocks[-1].start
        return -marks.gather(1, own[:, None]).mean(), (marks.argmax(1) == own).sum()

    # ---- prediction

    def logits(self, images: Images, block: range | None) -> Logits:
        """Scores of the classes of ``block``, or of all classes seen."""
        return self.students.of(block, images) if block is not None else self.students(images)

    # ---- what is kept

    def capacity(self) -> dict[str, float]:
        """Against the network PEC does without: stored students and their filters; the teacher, which is not stored."""
        body = self.setting.network.body
        stored, teacher = (n_parameters(x) / n_parameters(body) for x in (self.students, self.students.teacher))
        filters = len(self.students.classes) * self.config.width
        return {"parameters": stored, "neurons": filters / n_units(body), "teacher": teacher}

    def bytes_kept(self, n_classes: int) -> int:
        """Of the students; what the teacher says of one task's images, while it is learned, comes on top."""
        return n_classes * bytes_of(self._imitator(self.config.width, "student"))

    def state_dict(self) -> State:
        return super().state_dict() | {"targets": dict(self.targets)}

    def load_state_dict(self, state: State) -> None:
        self.blocks = [range(start, stop) for start, stop in state["blocks"]]
        self._admit()
        self.network.load_state_dict(state["network"])
        self.targets = {name: x.to(self.setting.device) for name, x in state["targets"].items()}

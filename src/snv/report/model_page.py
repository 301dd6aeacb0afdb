"""What the page of a model is drawn from: what it knows, how sure it is, what room is left, what was proved."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from snv.model import Audited, Check, Model, TaskInfo, Verdict, check
from snv.report.assembly import page, write_page
from snv.report.commands import flat, written
from snv.report.packed import PackedNeurons, packed
from snv.runs import NeuronTable

AHEAD = 10
"""How many more tasks are planned."""


@dataclass(frozen=True)
class TaskData:
    """A task as the page tells it; accuracy and calibration are of held-out pictures, the task known."""

    name: str
    classes: tuple[str, ...]
    pictures: int
    accuracy: float  # percent
    calibration_error: float  # percentage points
    temperature: float
    open_temperature: float
    neurons: int
    seconds: float


@dataclass(frozen=True)
class Room:
    """What further tasks find."""

    neurons: int
    used: int
    fit: int  # tasks that get all they ask for
    share: float  # of the free neurons, for each
    used_after: tuple[int, ...]  # each of the next tasks
    told: str


@dataclass(frozen=True)
class RoleData:
    """Tensors of one kind."""

    part: str  # the network, or a task
    role: str
    tensors: int
    bytes: int


@dataclass(frozen=True)
class ModelPage:
    path: str
    damage: tuple[str, ...]
    unchanged: bool
    verdicts: tuple[Verdict, ...]
    tasks: tuple[TaskData, ...] = ()
    room: Room | None = None
    made: tuple[tuple[str, str], ...] = ()  # with which settings
    files: tuple[tuple[str, int], ...] = ()
    roles: tuple[RoleData, ...] = ()
    neurons: PackedNeurons | None = None
    kind: str = "model"


def write_model_report(model: str | Path, out: Path, *, network: nn.Module | None = None) -> Path:
    """Check a model, write one self-contained page about it, and say where that is.

    ``network`` if it was made with one of your own.
    """
    return write_page(page(model_page(Path(model), network)), out)


def model_page(path: Path, network: nn.Module | None = None) -> ModelPage:
    """The data of the page; of a damaged model only what is wrong with it."""
    found = check(path, network=network)
    if found.damage:
        return ModelPage(str(path), found.damage, found.unchanged, found.verdicts)
    return _sound(Model.open(path, network=network), path, found)


def _sound(model: Model, path: Path, found: Check) -> ModelPage:
    status = model.status()
    return ModelPage(
        str(path),
        found.damage,
        found.unchanged,
        found.verdicts,
        tuple(_task(task, n) for task, n in zip(status.tasks, status.neurons, strict=True)),
        _room(model),
        tuple((name, written(name, value)) for name, value in flat(model.spec)),
        tuple(status.files.items()),
        tuple(by_role(model.audit())),
        _neurons(model),
    )


def _task(task: TaskInfo, neurons: int) -> TaskData:
    names = {field.name for field in dataclasses.fields(TaskData)} - {"neurons", "calibration_error"}
    told = {name: getattr(task, name) for name in names}
    return TaskData(**told, neurons=neurons, calibration_error=100 * task.calibration_error)


def _room(model: Model) -> Room:
    course, fit = model.plan(AHEAD)
    return Room(course.n, course.before, fit, model.spec["capacity"], course.used, str(course))


def by_role(rows: Sequence[Audited]) -> list[RoleData]:
    """Tensors that do the same in the same part, added up."""
    kinds: dict[tuple[str, str], list[int]] = {}
    for row in rows:
        kinds.setdefault((row.part, row.role), []).append(row.bytes)
    return [RoleData(part, role, len(sizes), sum(sizes)) for (part, role), sizes in kinds.items()]


def _neurons(model: Model) -> PackedNeurons | None:
    """What each neuron is worth to each task, and whose it is."""
    knowledge, specialists = model.knowledge, model.specialists
    if not model.tasks:
        return None
    masks = [subnetwork.mask for subnetwork in specialists.subnetworks]
    return packed(NeuronTable.of(specialists.neurons, knowledge.values, masks))

"""A classifier for people: learns one folder of pictures after another, keeps what each task answers, and can prove it.

model = snv.Model.create("pets.snv")
model.learn("pictures/birds")
model.predict(["a.jpg"])
model.verify()
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from snv.data import list_classes
from snv.errors import UserError
from snv.model.answers import Prediction, predictions, probabilities
from snv.model.audit import Audited, audited
from snv.model.checked import fitting
from snv.model.directory import Directory
from snv.model.export import Exported, export_checked, suffix_of
from snv.model.joint import task_answer
from snv.model.knowledge import Knowledge
from snv.model.network import Spec, file_format, without_tasks
from snv.model.pictures import Progress, read_dataset, read_folder
from snv.model.proof import Verdict, verdicts
from snv.model.store import Store, Stored
from snv.model.task import Learned, Status, TaskInfo
from snv.networks import Pretrained, read_pretrained
from snv.shapes import Pixels
from snv.subnetworks import Compact, Plan, folded


class Model:
    """Tasks learned one after the other in one network; on disk if it has a path, else in memory."""

    def __init__(self, knowledge: Knowledge, directory: Directory) -> None:
        """Use `create` or `open`."""
        self.knowledge, self._directory = knowledge, directory
        self.spec, self.specialists = knowledge.spec, knowledge.specialists

    # ---- made, opened, saved

    @classmethod
    def create(
        cls,
        path: str | Path | None = None,
        *,
        network: str | nn.Module = "resnet18",
        size: int = 64,
        channels: int = 3,
        width: int | None = None,
        capacity: float = 0.12,
        features: Pretrained | str | Path | None = None,
        seed: int = 0,
        device: str = "cpu",
    ) -> Model:
        """A model without tasks.

        ``network`` is a name, or your own module that turns images (b, c, size, size) into features (b, f): its weights
        are the start, and it must be given again to `open`. ``capacity`` is the share of neurons a task may take.
        ``features`` is an ONNX file, or what `read_pretrained` makes of it, in whose features all classes are compared.
        """
        if path is not None and Store(Path(path)).exists():
            raise UserError(f"{path} holds a model already. Open it, or choose another name.")
        own = network if isinstance(network, nn.Module) else None
        spec: Spec = {
            "network": network if isinstance(network, str) else "custom",
            "width": width or (32 if network == "resnet18" else None),
            "stem": "3x3/4" if network == "resnet18" and size >= 48 else None,
            "shape": [channels, size, size],
            "capacity": capacity,
            "seed": seed,
            "common": "patches",
        }
        file = read_pretrained(features) if isinstance(features, (str, Path)) else features
        if file is not None:
            spec |= {"common": "file", "features": file_format(file), "detail": math.ceil(file.size / size)}
        knowledge = Knowledge(spec, without_tasks(spec, own, device, None if file is None else file.data))
        return cls(knowledge, Directory(None if path is None else Path(path)))

    @classmethod
    def open(cls, path: str | Path, *, network: nn.Module | None = None, device: str = "cpu") -> Model:
        """A model from its directory, every byte of it checked."""
        directory = Directory(Path(path))
        stored = directory.read()
        try:
            _require_right_network(stored, path, network)
            knowledge = Knowledge.restored(stored, network, device)
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, IndexError, OverflowError) as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            advice = "Restore it from a copy." if network is None else "Give the network it was made with."
            raise UserError(f"{path} holds parts that do not fit together ({reason}). {advice}") from None
        return cls(knowledge, directory)

    def save(self, path: str | Path | None = None) -> None:
        """Write the model: old or new after a crash, never half."""
        directory = self._directory if path is None or Path(path) == self.path else Directory(Path(path))
        if directory.path is None:
            raise UserError("This model has no directory yet. Give one: model.save('pets.snv').")
        with directory.writing():
            directory.write(self.knowledge.content(), self.knowledge.states())
        self._directory = directory

    # ---- what there is

    @property
    def path(self) -> Path | None:
        """Its directory; None: it lives in memory."""
        return self._directory.path

    @property
    def tasks(self) -> list[TaskInfo]:
        """What is known of each task, in the order in which they came."""
        return self.knowledge.tasks

    def task(self, name: str) -> TaskInfo:
        """What is known of the task of that name."""
        return self.tasks[self.knowledge.index(name)]

    def status(self) -> Status:
        """What it knows, and how much room is left."""
        neurons = tuple(int(subnetwork.mask.sum()) for subnetwork in self.specialists.subnetworks)
        n, files = self.specialists.neurons.n, self._directory.files()
        return Status(tuple(self.tasks), neurons, self.knowledge.used(), n, files)

    # ---- one task more, one task less

    def learn(
        self,
        data: Any,
        name: str | None = None,
        *,
        epochs: int | None = None,
        replace: bool = False,
        repeat_classes: bool = False,
        progress: Progress = lambda *_: None,
    ) -> Learned:
        """The next task: a folder with one sub-folder per class, (images, labels), or a dataset of (image, label).

        The task gets its own subnetwork; every earlier task is verified afterwards, and only then the model is saved.
        ``replace`` forgets a task of the same name first; ``repeat_classes`` allows a class that another task has.
        """
        from snv.model.learning import learn, require_new_classes, require_new_name  # answering needs no learner

        knowledge, shape = self.knowledge, self.knowledge.preprocess.shape
        folder = isinstance(data, (str, Path))
        if folder and shape[0] != 3:
            raise UserError(f"This model takes images with {shape[0]} channel, but pictures of a folder are in colour.")
        if folder:
            list_classes(Path(data).expanduser().resolve())  # whatever is wrong with it, before anything is made
        name = name or (Path(data).expanduser().resolve().name if folder else f"task{knowledge.next_uid + 1}")
        with self._directory.writing(), knowledge.undone_on_failure():
            require_new_name(knowledge, name, replace)
            pictures = read_folder(Path(data), shape[1], progress) if folder else read_dataset(data, shape)
            if replace and name in knowledge.names():
                knowledge.forget(name)
            if not repeat_classes:
                require_new_classes(knowledge, pictures)
            learned = learn(knowledge, pictures, name, epochs, progress)
            self._directory.write(knowledge.content(), knowledge.states())
        return learned

    def forget(self, name: str) -> int:
        """Remove a task and free the neurons that only it used; returns how many. The others are verified first."""
        knowledge = self.knowledge
        with self._directory.writing(), knowledge.undone_on_failure():
            used = knowledge.used()
            knowledge.forget(name)
            for verdict in verdicts(knowledge):
                if not verdict.unchanged:
                    why = verdict.told_open if verdict.known else verdict.told
                    raise RuntimeError(f"Forgetting {name!r} would change {verdict.task!r} ({why}); undone.")
            self._directory.write(knowledge.content(), knowledge.states())
        return used - knowledge.used()

    def plan(self, tasks: int = 10, capacity: float | None = None) -> tuple[Plan, int]:
        """The course of the next tasks, and how many more get all the new neurons they ask for."""
        budget, used = self.knowledge.budget(capacity), self.knowledge.used()
        return budget.plan(tasks, used), budget.tasks_that_fit(used)

    # ---- answers

    def predict(
        self, data: Any, task: str | None = None, top: int = 1, progress: Progress = lambda *_: None
    ) -> list[Prediction]:
        """Answers to picture files or folders, or to images in memory; ``task`` if it is known."""
        return list(self.stream(data, task, top, progress))

    def stream(
        self, data: Any, task: str | None = None, top: int = 1, progress: Progress = lambda *_: None
    ) -> Iterator[Prediction]:
        """The same one by one, in batches of constant memory, however many there are."""
        return predictions(self.knowledge, data, task, top, progress)

    def probabilities(self, pixels: Pixels, task: str | None = None) -> Tensor:
        """Calibrated probabilities of the task's classes, or of all."""
        return probabilities(self.knowledge, pixels, None if task is None else self.knowledge.index(task))

    # ---- proof

    def verify(self) -> list[Verdict]:
        """Each task recomputed, with everything its answers are computed from.

        With the task known they are bit-identical for as long as the task exists. Without it, what each task brings to
        the choice is; the choice itself may differ as classes are added.
        """
        return verdicts(self.knowledge)

    def audit(self) -> list[Audited]:
        """Every tensor of the model: part, name, shape, bytes and what it is. No picture is among them."""
        return audited(self.knowledge.states())

    # ---- a task on its own

    def compact(self, name: str) -> Compact:
        """The task's subnetwork as a small module of its own: standardised images in, logits of the task out.

        It is a copy: train it or change it, and the model stays what it is.
        """
        t = self.knowledge.index(name)
        with fitting():
            return copy.deepcopy(self.specialists.specialist(t))

    def deployable(self, name: str, fold: bool = True) -> nn.Module:
        """The task's whole answer to pictures as RGB in [0, 1], norm layers folded in: what `export` writes."""
        knowledge, small = self.knowledge, self.compact(name)
        return task_answer(knowledge, knowledge.index(name), folded(small) if fold else small, exportable=fold).eval()

    def export(self, name: str, path: str | Path | None = None, format: str = "onnx") -> Exported:  # noqa: A002
        """Write the task as a file for pictures as RGB in [0, 1], checked against the model on random pictures.

        ``format`` is onnx or torch-export; without a path the file is called after the task.
        """
        if path is None and (not name.isprintable() or {"/", "\\", ":"} & set(name) or name.startswith(".")):
            raise UserError(
                f"{name!r} cannot be the name of a file. Say where to write it: --out FILE{suffix_of(format)}"
            )
        path = Path(f"{name}{suffix_of(format)}" if path is None else path)
        shape, whole = self.knowledge.preprocess.shape, self.deployable(name, fold=False)
        apart = export_checked(self.deployable(name), whole, shape, path, format)
        return Exported(path, path.stat().st_size, apart, self.task(name).classes, shape)


def _require_right_network(stored: Stored, path: str | Path, network: nn.Module | None) -> None:
    name = stored.content["spec"]["network"]
    if name == "custom" and network is None:
        raise UserError(f"{path} was made with a network of your own; give it again: Model.open(path, network=…).")
    if name != "custom" and network is not None:
        raise UserError(f"{path} was made with the network {name!r}. Open it without yours.")

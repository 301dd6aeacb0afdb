"""A classifier for people: learns one folder of pictures after another, keeps what each task answers, and can prove it.

model = snv.Model.create("pets.snv")
model.learn("pictures/birds")
model.predict(["a.jpg"])
model.verify()
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from snv.data import InMemory, Preprocess, Task
from snv.errors import UserError, unknown
from snv.files import State, cloned
from snv.learners import SNV, Setting, SNVConfig, learn_task
from snv.metrics import calibration_error, temperature
from snv.model.pictures import (
    Pictures,
    Progress,
    as_grey,
    as_pixels,
    as_task,
    is_one_image,
    picture_files,
    read_dataset,
    read_folder,
    tried,
)
from snv.model.store import MANIFEST, Store, Stored
from snv.networks import Body, Network, build_network, mend
from snv.runs import resolve_device
from snv.shapes import Features, Images, Logits, Pixels
from snv.subnetworks import Certificate, Compact, Plan, changed_evidence, compact, folded, plan, tasks_that_fit
from snv.training import EVALUATION_BATCH, Surroundings, Training, TrainSettings

TOLERANCE = 1e-4
"""How far logits may lie apart between machines that add in another order."""
PROVED = (
    "weights and answers are bit-identical, whatever is learned later",
    "evidence is bit-identical; the choice may differ as classes are added",
)
"""What `verify` says of a task that did not change, asked with the task known and without."""
PROVED_BEFORE = (
    "weights and answers are bit-identical; the version of snv that wrote it certified no names and temperatures",
    "the version of snv that wrote it did not certify its evidence",
)
ELSEWHERE = "weights are bit-identical, answers agree to {:.1e} (another machine adds in another order)"
PASSES = 45_000
"""Pictures shown while a task is learned, however few there are, between 8 and 40 times each."""
BATCH = 64
LARGEST = 0.4
"""Share of neurons a task's subnetwork may have, so that it stays small enough to be worth cutting out."""
DENSE_SHARE = 0.3
"""Of the epochs, before neurons are chosen: so small a subnetwork wants them chosen well."""


@dataclass(frozen=True)
class TaskInfo:
    """What is known of a task; its pictures are gone."""

    name: str
    uid: int  # never given again, also after the task is forgotten
    classes: tuple[str, ...]
    pictures: int
    accuracy: float  # percent of held-out pictures answered right, the task known
    temperature: float  # of its own head
    open_temperature: float  # of all classes together
    calibration_error: float  # of the probabilities of held-out pictures, the task known
    seconds: float
    certificate: dict[str, Any]
    fingerprints: dict[str, str] = field(default_factory=dict)  # by `_fingerprints`; of older models none


@dataclass(frozen=True)
class Learned:
    """What `learn` has to say."""

    task: TaskInfo
    new_neurons: int
    neurons: int  # of the task's subnetwork
    used: int
    n_neurons: int
    verified: tuple[str, ...]  # the earlier tasks, checked and unchanged


@dataclass(frozen=True)
class Prediction:
    """The answer to one picture: the best classes first, with probabilities."""

    source: str
    best: tuple[tuple[str, str, float], ...] = ()  # (task, class, probability)
    error: str | None = None

    @property
    def label(self) -> str | None:
        return self.best[0][1] if self.best else None


@dataclass(frozen=True)
class Verdict:
    """What was proved of a task, for each of the two ways to ask."""

    task: str
    known: bool  # asked with the task: every answer is what it was
    told: str
    evidence: bool | None  # asked without: what it brings to the choice is what it was; None: not certified at the time
    told_open: str

    @property
    def unchanged(self) -> bool:
        """Whether nothing that was certified has changed."""
        return self.known and self.evidence is not False


class Model:
    """Tasks learned one after the other in one network; on disk if it has a path, else in memory."""

    def __init__(self, learner: SNV, spec: Mapping[str, Any], tasks: Sequence[TaskInfo] = (), uid: int = 0) -> None:
        """Use `create` or `open`."""
        self.learner, self.spec = learner, dict(spec)
        self.tasks: list[TaskInfo] = list(tasks)
        self.path: Path | None = None
        self._next_uid = uid
        self._probes: dict[int, Tensor] = {}  # by uid: logits on the probe images when the task was frozen
        self._seen: bytes | None = None  # the manifest at ``path`` when it was last read or written
        self._store: Store | None = None  # while it is held

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
        seed: int = 0,
        device: str = "cpu",
    ) -> Model:
        """A model without tasks.

        ``network`` is a name, or your own module that turns images (b, c, size, size) into features (b, f): its weights
        are the start, and it must be given again to `open`. ``capacity`` is the share of neurons a task may take.
        """
        if path is not None and Store(Path(path)).exists():
            raise UserError(f"{path} holds a model already. Open it, or choose another name.")
        own = isinstance(network, nn.Module)
        spec = {
            "network": "custom" if own else network,
            "width": width or (32 if network == "resnet18" else None),
            "stem": "3x3/4" if network == "resnet18" and size >= 48 else None,
            "shape": [channels, size, size],
            "capacity": capacity,
            "seed": seed,
        }
        model = cls(_learner(spec, network if isinstance(network, nn.Module) else None, device), spec)
        model.path = Path(path) if path is not None else None
        return model

    @classmethod
    def open(cls, path: str | Path, *, network: nn.Module | None = None, device: str = "cpu") -> Model:
        """A model from its directory, every byte of it checked."""
        seen, stored = _manifest(Path(path)), Store(Path(path)).read()
        try:
            model = cls._restored(stored, path, network, device)
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            told = str(error).strip().splitlines()[0]
            advice = "Restore it from a copy." if network is None else "Give the network it was made with."
            raise UserError(f"{path} holds parts that do not fit together ({told}). {advice}") from None
        model.path, model._seen = Path(path), seen
        return model

    @classmethod
    def _restored(cls, stored: Stored, path: str | Path, network: nn.Module | None, device: str) -> Model:
        content = stored.content
        own = content["spec"]["network"] == "custom"
        if own and network is None:
            raise UserError(f"{path} was made with a network of your own; give it again: Model.open(path, network=…).")
        if not own and network is not None:
            raise UserError(f"{path} was made with the network {content['spec']['network']!r}. Open it without yours.")
        tasks = [TaskInfo(**task | {"classes": tuple(task["classes"])}) for task in content["tasks"]]
        model = cls(_learner(content["spec"], network, device), content["spec"], tasks, content["next_uid"])
        model._load(stored.states)
        return model

    def save(self, path: str | Path | None = None) -> None:
        """Write the model: old or new after a crash, never half."""
        target = Path(path) if path is not None else self.path
        if target is None:
            raise UserError("This model has no directory yet. Give one: model.save('pets.snv').")
        if self._store is not None and self._store.path == target:
            self._write(self._store)
        else:
            with self._writing(target) as store:
                self._write(store)
        self.path = target

    def _write(self, store: Store | None) -> None:
        if store is not None:
            store.write(self._content(), self._states())
            self._seen = _manifest(store.path)

    def _content(self) -> dict[str, Any]:
        tasks = [dataclasses.asdict(task) for task in self.tasks]
        return {"spec": self.spec, "tasks": tasks, "next_uid": self._next_uid}

    def _states(self) -> dict[str, State]:
        """The network once, and what each task adds to it."""
        state = self.learner.state_dict()
        heads = {name: x for name, x in state["network"].items() if name.startswith("heads.")}
        body = {name: x for name, x in state["network"].items() if not name.startswith("heads.")}
        states: dict[str, State] = {"network": {"body": body, "frozen": state["frozen"]}}
        for t, task in enumerate(self.tasks):
            states[f"task {task.uid} {task.name}"] = {
                "head": {name.split(".", 2)[2]: x for name, x in heads.items() if name.startswith(f"heads.{t}.")},
                "subnetwork": state["subnetworks"][t],
                "values": state["values"][t].float(),
                "statistics": state["statistics"][t],
                "probe": self._probes[task.uid],
            }
        return states

    def _load(self, states: dict[str, State]) -> None:
        blank, tasks = self.learner.state_dict(), [states[f"task {task.uid} {task.name}"] for task in self.tasks]
        stops = [sum(len(task.classes) for task in self.tasks[: t + 1]) for t in range(len(self.tasks))]
        heads = {f"heads.{t}.{name}": x for t, kept in enumerate(tasks) for name, x in kept["head"].items()}
        self.learner.load_state_dict(
            blank
            | {
                "blocks": [[stop - len(task.classes), stop] for stop, task in zip(stops, self.tasks, strict=True)],
                "network": states["network"]["body"] | heads,
                "frozen": states["network"]["frozen"],
                "subnetworks": [kept["subnetwork"] for kept in tasks],
                "values": [kept["values"].double() for kept in tasks],
                "statistics": [kept["statistics"] for kept in tasks],
                "certificates": [task.certificate for task in self.tasks],
            }
        )
        self._probes = {task.uid: kept["probe"] for task, kept in zip(self.tasks, tasks, strict=True)}
        self.learner.network.eval()

    # ---- one writer at a time

    @contextmanager
    def _writing(self, path: Path | None) -> Iterator[Store | None]:
        """The directory, if any, is ours for as long as this lasts, and holds what we last saw in it."""
        if path is None:
            yield None
            return
        store = Store(path)
        with store.writing():
            self._require_unchanged(path)
            self._store = store
            try:
                yield store
            finally:
                self._store = None

    def _require_unchanged(self, path: Path) -> None:
        """Nobody's work is overwritten: neither another model, nor what another process has learned meanwhile."""
        seen, found = self._seen if path == self.path else None, _manifest(path)
        if found is not None and seen is None:
            raise UserError(f"{path} holds a model already. Open it, or choose another name.")
        if found is not None and found != seen:
            raise UserError(f"{path} was changed by another process since it was opened. Open it again, then repeat.")

    # ---- learning

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
        shape = self.learner.setting.preprocess.shape
        folder = isinstance(data, (str, Path))
        name = name or (Path(data).expanduser().resolve().name if folder else f"task{self._next_uid + 1}")
        with self._writing(self.path) as store, self._undone_on_failure():
            self._check_name(name, replace)
            if folder and shape[0] != 3:
                raise UserError(
                    f"This model takes images with {shape[0]} channel, but pictures of a folder are in colour."
                )
            pictures = read_folder(Path(data), shape[1], progress) if folder else read_dataset(data, shape)
            if replace and name in self._names():
                self._forget(name)
            self._check_classes(pictures, repeat_classes)
            learned = self._learn(pictures, name, epochs, progress)
            self._write(store)
        return learned

    def _learn(self, pictures: Pictures, name: str, epochs: int | None, progress: Progress) -> Learned:
        start = time.perf_counter()
        self._require_fingerprints()
        learner, uid = self.learner, self._next_uid
        first = learner.blocks[-1].stop if learner.blocks else 0
        task = as_task(pictures, uid, first, self.spec["seed"])
        test = task.test
        assert isinstance(test, InMemory)
        shown = epochs or max(8, min(40, PASSES // len(task.train)))
        train = TrainSettings(epochs=shown, patience=max(3, shown // 4), precision="fp32")
        learner.setting = dataclasses.replace(learner.setting, train=train)
        before = int(learner.specialists.frozen.sum())
        self._run(task.without_test(), progress)
        self._next_uid += 1
        learner.network.eval()
        info = self._judged(name, uid, task, test, len(pictures.labels), start)
        self.tasks.append(info)
        self._probes[uid] = learner.specialists.probe_logits(len(self.tasks) - 1)
        task.close()
        used = int(learner.specialists.frozen.sum())
        mine = int(learner.specialists.subnetworks[-1].mask.sum())
        earlier = tuple(t.name for t in self.tasks[:-1])
        return Learned(info, used - before, mine, used, learner.specialists.neurons.n, earlier)

    def _run(self, task: Task, progress: Progress) -> None:
        """All stages of the task; the learner verifies every earlier task when it freezes this one."""
        learner = self.learner

        def tell(training: Training) -> None:
            at, n = training.progress, len(training.train)
            name = {"dense": "learning", "consolidate": "consolidating"}[training.stage.name]
            progress(name, at.epoch * n + at.images, training.settings.epochs * n)

        around = Surroundings(self.spec["seed"], learner.setting.device, learner.setting.preprocess, on_step=tell)
        with torch.random.fork_rng(devices=[]):
            learn_task(learner, task, around)

    def _judged(self, name: str, uid: int, task: Task, test: InMemory, n: int, start: float) -> TaskInfo:
        """Temperatures from validation pictures, accuracy and calibration from held-out ones."""
        assert isinstance(task.val, InMemory)
        block = task.block
        least = 1.0 if len(task.val) < 50 else 0.0  # few pictures, all answered right, would make it overconfident
        own = max(least, temperature(self._logits(task.val.pixels, block), task.val.labels - block.start))
        every = max(least, temperature(self._logits(task.val.pixels, None), task.val.labels))
        held_out = self._logits(test.pixels, block)
        labels = test.labels - block.start
        info = TaskInfo(
            name=name,
            uid=uid,
            classes=task.names,
            pictures=n,
            accuracy=100 * float((held_out.argmax(1) == labels).double().mean()),
            temperature=own,
            open_temperature=every,
            calibration_error=calibration_error((held_out / own).softmax(1), labels),
            seconds=time.perf_counter() - start,
            certificate=self.learner.specialists.certificates[-1].state(),
        )
        return dataclasses.replace(info, fingerprints=_fingerprints(info, self.learner.setting.preprocess))

    @contextmanager
    def _undone_on_failure(self) -> Iterator[None]:
        """Whatever goes wrong, the model in memory is what it was."""
        kept = cloned(self.learner.state_dict()), list(self.tasks), self._next_uid, dict(self._probes)
        setting = self.learner.setting
        try:
            yield
        except BaseException:
            state, self.tasks, self._next_uid, self._probes = kept
            self.learner.setting = setting
            self.learner.network.remove_heads()  # they may be others by now; each is made anew
            self.learner.load_state_dict(state)
            self.learner.network.eval()
            raise

    def _check_name(self, name: str, replace: bool) -> None:
        if not name or not name.isprintable() or "/" in name or name.strip() != name:
            raise UserError(
                f"{name!r} cannot be the name of a task: use letters, digits, spaces and signs, but no slash."
            )
        if name in self._names() and not replace:
            raise UserError(
                f"There is a task {name!r} already, with the classes {', '.join(self.task(name).classes)}. Give the "
                "new one another name (--task), or replace the old one (--replace): it is then forgotten."
            )

    def _check_classes(self, pictures: Pictures, repeat_classes: bool) -> None:
        known = {c: task.name for task in self.tasks for c in task.classes}
        again = [c for c in pictures.classes if c in known]
        if again and not repeat_classes:
            raise UserError(
                f"The class {again[0]!r} is known from the task {known[again[0]]!r}. Rename the folder, forget that "
                "task, or let both stand side by side (--repeat-classes)."
            )

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
        if not self.tasks:
            raise UserError("This model has learned nothing yet, so it has no answers. Let it learn a folder first.")
        if task is not None:
            self.task(task)
        if top < 1:
            raise UserError(f"top is the number of answers to each picture, at least 1; got {top}.")
        source, done = self._sources(data), 0
        while some := list(islice(source, BATCH)):
            yield from self._answers(some, task, top)
            done += len(some)
            progress("predicting", done, done)

    def _sources(self, data: Any) -> Iterator[tuple[str, Tensor | UserError]]:
        shape = self.learner.setting.preprocess.shape
        if isinstance(data, (str, Path)) or is_one_image(data, shape[0]):
            data = [data]
        if not isinstance(data, Iterable):
            raise UserError(f"Give picture files, folders, or images; got {type(data).__name__}.")
        for i, item in enumerate(data):
            if isinstance(item, (str, Path)):
                for file, found in tried(picture_files([Path(item)]), shape[1]):
                    if isinstance(found, Tensor) and shape[0] == 1:
                        found = as_grey(found)
                    yield str(file), found
            else:
                yield str(i), as_pixels(item, shape, f"Image {i}")

    def _answers(self, some: list[tuple[str, Tensor | UserError]], task: str | None, top: int) -> Iterator[Prediction]:
        good = [found for _, found in some if isinstance(found, Tensor)]
        probabilities = iter(self.probabilities(torch.stack(good), task) if good else ())
        names = [(t.name, c) for t in self.tasks if task in (None, t.name) for c in t.classes]
        for source, found in some:
            if isinstance(found, UserError):
                yield Prediction(source, error=str(found))
                continue
            p, which = next(probabilities).topk(min(top, len(names)))
            best = tuple((*names[i], x) for i, x in zip(which.tolist(), p.tolist(), strict=True))
            yield Prediction(source, best)

    def probabilities(self, pixels: Pixels, task: str | None = None) -> Tensor:
        """Calibrated probabilities of the task's classes, or of all."""
        if task is not None:
            t = self._names().index(self.task(task).name)
            return (self._logits(pixels, self.learner.blocks[t]) / self.tasks[t].temperature).softmax(1)
        mean = float(torch.tensor([info.open_temperature for info in self.tasks]).log().mean().exp())
        return (self._logits(pixels, None) / mean).softmax(1)

    @torch.inference_mode()
    def _logits(self, pixels: Pixels, block: range | None) -> Logits:
        setting = self.learner.setting
        found = []
        for part in pixels.split(EVALUATION_BATCH):
            images: Images = setting.preprocess(part, setting.device, None, True)
            found.append(self.learner.logits(images, block).cpu())
        return torch.cat(found)

    # ---- proof

    def verify(self) -> list[Verdict]:
        """Each task recomputed, with everything its answers are computed from.

        With the task known they are bit-identical for as long as the task exists. Without it, what each task brings to
        the choice is; the choice itself may differ as classes are added.
        """
        return [self._verdict(t, task) for t, task in enumerate(self.tasks)]

    def _verdict(self, t: int, task: TaskInfo) -> Verdict:
        issued = Certificate.from_state(task.certificate)
        with _threads(issued.threads):
            now = self.learner.specialists.certify(t, issued.seed)
            logits = self.learner.specialists.probe_logits(t).cpu()
        apart = float((logits - self._probes[task.uid].cpu()).abs().max())
        certified = bool(task.fingerprints or issued.evidence)
        changed = _changes(issued, now, apart, certified) | self._changed_fingerprints(task)
        known = [told for part, told in changed.items() if part not in ("evidence", "open temperature")]
        without = [told for part, told in changed.items() if part != "temperature"]
        exact, (told, told_open) = now.logits == issued.logits, PROVED if certified else PROVED_BEFORE
        return Verdict(
            task.name,
            not known,
            "; ".join(known) or (told if exact else ELSEWHERE.format(apart)),
            None if not (certified or without) else not without,
            "; ".join(without) or told_open,
        )

    def _changed_fingerprints(self, task: TaskInfo) -> dict[str, str]:
        """What of names, picture format and temperatures is not what it was, as far as that was certified."""
        now = _fingerprints(task, self.learner.setting.preprocess) if task.fingerprints else {}
        return {part: f"its {part} changed" for part, found in now.items() if task.fingerprints.get(part) != found}

    def _require_fingerprints(self) -> None:
        for task in self.tasks:
            if changed := self._changed_fingerprints(task):
                raise UserError(
                    f"The task {task.name!r} is not what it was when it was learned: {'; '.join(changed.values())}. "
                    "Restore the model from a copy."
                )

    def forget(self, name: str) -> int:
        """Remove a task and free the neurons that only it used; returns how many. The others are verified first."""
        with self._writing(self.path) as store, self._undone_on_failure():
            freed = self._forget(name)
            wrong = [verdict for verdict in self.verify() if not verdict.unchanged]
            if wrong:
                why = wrong[0].told_open if wrong[0].known else wrong[0].told
                raise RuntimeError(f"Forgetting {name!r} would change {wrong[0].task!r} ({why}); undone.")
            self._write(store)
        return freed

    def _forget(self, name: str) -> int:
        t = self._names().index(self.task(name).name)
        before = int(self.learner.specialists.frozen.sum())
        self.learner.forget(t)
        del self._probes[self.tasks[t].uid]
        del self.tasks[t]
        kept = zip(self.tasks, self.learner.specialists.certificates, strict=True)
        self.tasks = [dataclasses.replace(task, certificate=certificate.state()) for task, certificate in kept]
        return before - int(self.learner.specialists.frozen.sum())

    def plan(self, tasks: int = 10, capacity: float | None = None) -> tuple[Plan, int]:
        """The course of the next tasks, and how many of them get a new neuron in every layer."""
        neurons, used = self.learner.specialists.neurons, int(self.learner.specialists.frozen.sum())
        share = self.spec["capacity"] if capacity is None else capacity
        least = len(neurons.layers)
        course = plan(neurons.n, share, tasks, used=used, remaining=True, least=least)
        return course, tasks_that_fit(neurons.n, share, used=used, remaining=True, least=least)

    def audit(self) -> list[tuple[str, str, tuple[int, ...], int, str]]:
        """Every tensor of the model: file, name, shape, bytes and what it is. No picture is among them."""
        rows = []
        for state, kept in self._states().items():
            for name, x in _tensors(kept):
                rows.append((state, name, tuple(x.shape), x.numel() * x.element_size(), _role(name)))
        return rows

    def compact(self, name: str) -> Compact:
        """The task's subnetwork as a small module of its own: standardised images in, logits of the task out.

        It is a copy: train it or change it, and the model stays what it is.
        """
        return copy.deepcopy(self.learner.specialists.specialist(self._names().index(self.task(name).name)))

    def deployable(self, name: str, fold: bool = True) -> nn.Module:
        """The same for pictures as RGB in [0, 1], (b, c, size, size), norm layers folded in: what `export` writes."""
        preprocess, small = self.learner.setting.preprocess, self.compact(name)
        return Standardised(folded(small) if fold else small, preprocess.mean, preprocess.std).eval()

    def task(self, name: str) -> TaskInfo:
        """What is known of the task of that name."""
        if name not in self._names():
            raise (
                unknown("task", name, self._names())
                if self.tasks
                else UserError(f"This model has no tasks yet, so there is no {name!r}.")
            )
        return self.tasks[self._names().index(name)]

    def _names(self) -> list[str]:
        return [task.name for task in self.tasks]


class Standardised(nn.Module):
    """Pixels in [0, 1] are standardised, then classified."""

    def __init__(self, inner: nn.Module, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.inner = inner
        self.mean: Tensor
        self.std: Tensor
        self.register_buffer("mean", torch.tensor(mean).view(1, -1, 1, 1))
        self.register_buffer("std", torch.tensor(std).view(1, -1, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.inner((images - self.mean) / self.std)
        return logits


class OwnBody(Body):
    """A user's module as a body; how many features it gives is found out by trying it."""

    def __init__(self, inner: nn.Module, shape: tuple[int, int, int]) -> None:
        super().__init__()
        self.inner = inner.eval()
        mend(self.inner)
        self.n_features = _tried(inner, shape)

    def forward(self, images: Images) -> Features:
        features: Features = self.inner(images)
        return features


def _learner(spec: Mapping[str, Any], own: nn.Module | None, device: str) -> SNV:
    """The untrained learner of a model."""
    channels, size, _ = spec["shape"]
    if channels not in (1, 3):
        raise UserError(f"Images have 1 channel (grey) or 3 (colour); got {channels}.")
    shape, where = (channels, size, size), resolve_device(device)
    if own is None:
        network = build_network(spec["network"], shape, spec["seed"], width=spec["width"], stem=spec["stem"])
    else:
        network = Network(OwnBody(own, shape), spec["seed"])
    network = network.to(where).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    half = (0.5,) * channels
    preprocess = Preprocess(half, half, shape, "crop-flip" if channels == 3 else "none")
    train = TrainSettings(precision="fp32")
    setting = Setting(network, "cil", train, preprocess, where, spec["seed"], n_tasks=1)
    try:
        learner = SNV(setting, SNVConfig(capacity=spec["capacity"], largest=LARGEST, dense_share=DENSE_SHARE))
        learner.network.eval()
        if own is not None:
            _require_cuttable(learner)
    except (ValueError, TypeError, RuntimeError, KeyError) as error:  # of tracing someone's code
        told = str(error).strip().splitlines()[0]
        raise UserError(f"Subnetworks cannot be cut out of your network ({told}). Use plain layers in it.") from None
    return learner


def _manifest(path: Path) -> bytes | None:
    """The manifest of a directory as it is now, if there is one."""
    with suppress(OSError):
        return (path / MANIFEST).read_bytes()
    return None


def _tried(own: nn.Module, shape: tuple[int, int, int]) -> int:
    """The number of features a user's module gives for images of this shape."""
    try:
        with torch.no_grad():
            features = own(torch.zeros(2, *shape))
    except Exception as error:
        raise UserError(f"Your network cannot read images of shape {shape}: {error}. Set size and channels.") from None
    if not isinstance(features, Tensor) or features.ndim != 2:
        found = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
        raise UserError(f"Your network should give features (b, f) for images; it gives {found}. Remove or add layers.")
    return features.shape[1]


def _require_cuttable(learner: SNV) -> None:
    """Find out now whether subnetworks can be cut out of a user's module."""
    head = nn.Linear(learner.specialists.body.n_features, 2, device=learner.setting.device)
    everything = torch.ones(learner.specialists.neurons.n, dtype=torch.bool)
    responses = sum(layer.n * layer.width for layer in learner.specialists.neurons.layers)
    shape = learner.setting.preprocess.shape
    _, links = compact(
        learner.specialists.body, head, learner.specialists.neurons, everything, torch.zeros(responses), shape
    )
    seen: set[nn.Module] = set()
    for link in links:
        if link.dense in seen:
            raise UserError(
                f"Your network calls a {type(link.dense).__name__} layer twice; a subnetwork would train each call for "
                "itself. Give each call its own layer."
            )
        seen.add(link.dense)


def _changes(issued: Certificate, now: Certificate, apart: float, certified: bool) -> dict[str, str]:
    """Which part of a certificate does not hold any more, in words; ``apart`` is how far probe answers moved."""
    found = {}
    if now.tensors != issued.tensors:
        found["weights"] = "its weights changed"
    elif now.logits != issued.logits and not apart <= TOLERANCE:
        found["answers"] = f"its answers moved by {apart:.1e}"
    if certified and (parts := changed_evidence(issued.evidence, now.evidence)):
        found["evidence"] = f"its evidence changed ({', '.join(parts)})"
    return found


def _fingerprints(task: TaskInfo, preprocess: Preprocess) -> dict[str, str]:
    """Hashes of what turns a picture into input, and logits into an answer."""
    parts: dict[str, Any] = {
        "name": task.name,
        "class names": task.classes,
        "picture format": [preprocess.shape, preprocess.mean, preprocess.std],
        "temperature": task.temperature,
        "open temperature": task.open_temperature,
    }
    written = {name: json.dumps(part).encode() for name, part in parts.items()}
    return {name: hashlib.blake2b(part, digest_size=16).hexdigest() for name, part in written.items()}


@contextmanager
def _threads(n: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _tensors(state: State, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """All tensors of a state, with their place in it."""
    if isinstance(state, Tensor):
        yield name, state
    elif isinstance(state, dict):
        for key, value in state.items():
            yield from _tensors(value, f"{name}.{key}" if name else key)
    elif isinstance(state, list):
        for i, value in enumerate(state):
            yield from _tensors(value, f"{name}[{i}]")


ROLES: tuple[tuple[str, str], ...] = (
    ("body", "weights of the shared network"),
    ("frozen", "which neurons are frozen"),
    ("head", "weights of the task's head"),
    ("subnetwork.mask", "which neurons the task uses"),
    ("subnetwork.means", "constants for the neurons it does not use, mostly zeros"),
    ("subnetwork.norm", "the task's norm layers"),
    ("values", "Shapley value of every neuron for the task"),
    ("statistics.energy", "mean and deviation of its energy"),
    ("statistics.means", "mean features of its classes in a subnetwork"),
    ("statistics.covariance", "covariance of features within its classes"),
    ("probe", "its answers to made-up probe images"),
)


@functools.cache
def _role(name: str) -> str:
    return next(role for start, role in ROLES if name.startswith(start))


__all__ = ["Learned", "Model", "Prediction", "TaskInfo", "Verdict"]

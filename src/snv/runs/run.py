"""Train of Algorithm 1, for any learner: task after task, every row evaluated, every moment recoverable."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from snv.config import RunConfig, as_begun, build, without_retired
from snv.data import Preprocess, Source, TaskStream, is_permuted, load_source
from snv.devices import resolve_device, resolve_precision
from snv.errors import Interrupted, UserError
from snv.files import State
from snv.learners import LEARNERS, Learner, bytes_beyond_network
from snv.networks import build_network, bytes_of
from snv.runs.directory import RunDirectory, load_record, require_space
from snv.runs.environment import data_fingerprint, describe
from snv.runs.evaluate import accuracy
from snv.runs.interrupts import Interrupts
from snv.runs.meter import Meter, latency_ms
from snv.runs.record import Record
from snv.training import Place, Reporter, Setting, Training, learn_task

log = logging.getLogger(__name__)

Progress = Callable[[str, float, float], None]
"""Told what is being done, how much of it is done, and how much there is."""

FREE_TO_CHANGE = ("checkpoint_seconds", "keep", "data.dir", "data.workers")
"""Settings that do not change a result, so a run may be continued with others."""


def run(config: RunConfig, out: Path, progress: Progress = lambda *_: None) -> Record:
    """Learn every task of the stream and return the record; continue what an earlier call left unfinished.

    Whatever is wrong with the request is a `UserError` before anything is trained or written. A finished run is
    returned as it is. After a kill at any moment the same call continues and ends with the same bits on CPU.
    """
    directory = RunDirectory(out)
    directory.check_is_ours()
    if directory.is_run():
        config = as_begun(config, directory.read("config.json"))
        _check_same(config.as_dict(), directory.read("config.json"), out)
        record = load_record(out)
        if record.status == "finished":
            return record
    prepared = prepare(config, progress, directory.read("environment.json") if directory.is_run() else None)
    require_space(out, _bytes_needed(prepared))
    with directory.locked(), left_as_found():
        torch.set_num_threads(prepared.environment["threads"])
        return _Run(prepared, directory, progress).finish()


@dataclass(frozen=True)
class Prepared:
    """A run that can start: data found, network built, learner made."""

    config: RunConfig
    environment: dict[str, Any]
    stream: TaskStream
    learner: Learner[Any]
    preprocess: Preprocess


def prepare(config: RunConfig, progress: Progress, environment: dict[str, Any] | None = None) -> Prepared:
    """Find the data, build network and learner. ``environment`` is that of a run to be continued."""
    data = config.data
    source = load_source(data.name, data_dir=data.dir, size=data.size, workers=data.workers, progress=progress)
    permuted = is_permuted(data.name)
    stream = TaskStream(
        source,
        data.tasks,
        config.seed,
        permuted=permuted,
        n_classes=data.classes,
        per_class=data.per_class,
        judged_on=data.judged_on,
    )
    stream.check()
    environment = environment or _environment(config, source)
    if environment["data"] != data_fingerprint(source):
        raise UserError(f"The data of this run have changed since it began ({data.name}). Restore them or start anew.")
    learner, preprocess = build_learner(config, environment, source, len(stream))
    return Prepared(config, environment, stream, learner, preprocess)


def build_learner(
    config: RunConfig, environment: dict[str, Any], source: Source, n_tasks: int
) -> tuple[Learner[Any], Preprocess]:
    """The method of a run with its network, untrained, and what turns this source's pixels into its input."""
    device = resolve_device(environment["device"])
    preprocess = Preprocess.of(source)
    network = build_network(
        config.network.name,
        source.shape,
        config.seed,
        width=config.network.width,
        stem=config.network.stem,
        hidden=config.network.hidden,
    ).to(device)
    if config.train.channels_last:
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    train = dataclasses.replace(config.train, precision=environment["precision"])
    setting = Setting(network, config.scenario, train, preprocess, device, config.seed, n_tasks)
    return LEARNERS[config.method](setting, config.learner_config()), preprocess


class _Run:
    """One run under way."""

    def __init__(self, prepared: Prepared, directory: RunDirectory, progress: Progress) -> None:
        self.config, self.stream, self.learner = prepared.config, prepared.stream, prepared.learner
        self.directory, self.tell = directory, progress
        self.environment = prepared.environment
        self.record = Record.blank(self.config.as_dict(), len(self.stream))
        self.meter = Meter(self.learner.setting.device)
        self.log: list[dict[str, Any]] = []
        self.learner.reporter = Reporter(
            phase=self.meter.phase,
            counted=self.meter.counted,
            tell=self._tell_of_task,
            on_step=self._after_step,
            on_epoch=self.log.append,
        )
        self.valuing: list[float] = []  # seconds, task by task
        self.task, self.place = 0, Place()  # what comes next
        self.interrupts = Interrupts()
        self.saved_at = time.monotonic()

    def finish(self) -> Record:
        """From wherever the directory stands to the end."""
        self._restore()
        with self.interrupts.watched():
            if self.task == 0 and self.place == Place():
                self._evaluate_untrained()
            while self.task < len(self.stream):
                self._learn_task()
        self._measure_inference()
        self.record.status = "finished"
        self._export()
        return self.record

    # ---- one task

    def _learn_task(self) -> None:
        t, learner = self.task, self.learner
        whole = self.stream.upto(t) if learner.card.sees == "all tasks" else self.stream.task(t)
        task = whole.without_test()
        with self.meter.phase("train"):
            learn_task(learner, task, self.place)
        n_bytes = bytes_beyond_network(learner, task)
        task.close()
        if learner.ready:
            self._evaluate_row(t)
        self.record.tasks_done, self.record.capacity = t + 1, learner.capacity()
        self.record.bytes_kept.append(n_bytes)
        self._note_valuation()
        self.task, self.place = t + 1, Place()
        self.directory.save_task(t + 1, self._state(), self.config.keep)
        self._export()
        self._stop_if_asked()

    def _note_valuation(self) -> None:
        """What a valuation said of itself, and how long it took; the seconds differ between repetitions."""
        self.record.valuations = list(self.learner.valuations)
        if self.record.valuations and len(self.valuing) == self.task:
            self.valuing.append(self.meter.seconds["value"] - sum(self.valuing))

    def _after_step(self, training: Training) -> None:
        """Tell how far it is; save now and then, and when a signal asked to stop."""
        at, n_images = training.progress, len(training.train)
        done, total = at.epoch * n_images + at.images, training.settings.epochs * n_images
        self._tell_of_task(training.stage.name, done, total)
        due = time.monotonic() - self.saved_at >= self.config.checkpoint_seconds
        if due or self.interrupts.signum is not None:
            self.directory.save_now(self._state(training.state_dict()))
            self._export()
            self._stop_if_asked()

    def _tell_of_task(self, what: str, done: float, total: float) -> None:
        self.tell(f"task {self.task + 1} of {len(self.stream)}, {what}", done, total)

    def _stop_if_asked(self) -> None:
        if self.interrupts.signum is not None:
            raise Interrupted(self.interrupts.signum, str(self.directory.path))

    # ---- evaluation

    def _evaluate_untrained(self) -> None:
        """b_j of forward transfer: the network before any training, on every task."""
        self.record.untrained[:] = self._accuracies("evaluate the untrained network", len(self.stream))

    def _evaluate_row(self, t: int) -> None:
        """Row t: all tasks learned so far, and the next one, which forward transfer asks for."""
        n, what = min(t + 2, len(self.stream)), f"task {t + 1} of {len(self.stream)}"
        self.record.accuracy[t, :n] = self._accuracies(f"{what}, evaluate", n)
        if self.config.scenario == "cil":
            self.record.known[t, : t + 1] = self._accuracies(f"{what}, evaluate with the task known", t + 1, known=True)

    def _accuracies(self, what: str, n: int, known: bool | None = None) -> list[float]:
        """Of the first ``n`` tasks."""
        with self.meter.phase("evaluate"):
            return [self._accuracy(j, known, lambda share, j=j: self.tell(what, j + share, n)) for j in range(n)]  # type: ignore[misc]

    def _accuracy(self, j: int, known: bool | None, tell: Callable[[float], None]) -> float:
        return accuracy(self.learner, self.stream.test(j), self.stream.blocks[j], known, tell)

    @torch.inference_mode()
    def _measure_inference(self) -> None:
        """Latency at batch 1 and 64, parameters, bytes on disk: no cost of the run, so none of it is counted."""
        self.learner.reporter = Reporter()
        block = self.stream.blocks[-1] if self.config.scenario == "til" else None
        image = next(self.learner.setting.prepared(self.stream.test(0), torch.tensor([0])))[0][0]
        self.record.cost = {
            "latency_ms": {str(b): latency_ms(lambda x: self.learner.logits(x, block), image, b) for b in (1, 64)},
            "parameters": sum(p.numel() for p in self.learner.network.parameters()),
            "bytes_on_disk": self.directory.bytes_on_disk(),
        }

    # ---- what is kept

    def _state(self, training: State | None = None) -> State:
        """Everything the rest of the run depends on."""
        return {
            "task": self.task,
            "stage": self.place.stage,
            "training": training,
            "learner": self.learner.state_dict(),
            "record": self.record.results(),
            "log": self.log,
            "counts": self.meter.counts(),
        }

    def _restore(self) -> None:
        """Go on from the newest checkpoint, or note down what begins."""
        state = self.directory.newest() if self.directory.is_run() else None
        if state is not None:
            self.task, self.place = state["task"], Place(state["stage"], state["training"])
            self.learner.load_state_dict(state["learner"])
            self.record.load_results(state["record"])
            self.log.extend(state["log"])
            self.meter.load_counts(state["counts"])
            if (self.directory.path / "costs.json").exists():
                costs = self.directory.read("costs.json")
                self.meter.load_measured(costs)
                self.valuing.extend(costs.get("valuation_seconds", [])[: self.task])
            log.info("continuing at task %d, stage %d", self.task + 1, self.place.stage + 1)
        self.directory.write("environment.json", self.environment)
        self._export()
        self.directory.write("config.json", self.record.config)

    def _export(self) -> None:
        """The copies for people, and the clock."""
        self.saved_at = time.monotonic()
        self.record.cost = self.record.cost | self.meter.measured() | {"macs": dict(self.meter.macs)}
        if self.valuing:
            self.record.cost["valuation_seconds"] = list(self.valuing)
        measured = {key: value for key, value in self.record.cost.items() if key != "macs"}
        self.directory.write("costs.json", measured)
        self.directory.write_log(self.log)
        stored = {"status": self.record.status, **self.record.results(), "macs": self.record.cost["macs"]}
        self.directory.write("record.json", stored)


@contextmanager
def left_as_found() -> Iterator[None]:
    """Give PyTorch's own generator and number of threads back afterwards."""
    threads = torch.get_num_threads()
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            torch.set_num_threads(threads)


def _environment(config: RunConfig, source: Source) -> dict[str, Any]:
    device = resolve_device(config.device)
    return describe() | {
        "device": str(device),
        "precision": resolve_precision(config.train.precision, device),
        "threads": config.threads or torch.get_num_threads(),
        "data": data_fingerprint(source),
    }


def _bytes_needed(prepared: Prepared) -> int:
    """Checkpoints of all tasks, and one within a task: weights, two moments, the best epoch, and its replacement."""
    learner = prepared.learner
    weights = bytes_of(learner.network) + learner.bytes_kept(prepared.stream.blocks[-1].stop)
    tasks = len(prepared.stream) if prepared.config.keep == "all" else 2
    return weights * (tasks + 8) + 2**20


def _check_same(asked: dict[str, Any], stored: dict[str, Any], out: Path) -> None:
    """A directory holds one run: continuing it with other settings would mix two."""
    known: RunConfig = build(RunConfig, without_retired(stored, out))  # what it does not say yet is as by default
    new, old = _flat(asked), _flat(known.as_dict())
    changed = [k for k in sorted(new.keys() | old.keys()) if new.get(k) != old.get(k) and k not in FREE_TO_CHANGE]
    if changed:
        changes = ", ".join(f"{key} was {old.get(key)!r} and is now {new.get(key)!r}" for key in changed[:3])
        raise UserError(f"{out} holds a run with other settings: {changes}. Choose another --out, or remove it.")


def _flat(config: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = list(value) if isinstance(value, tuple) else value
    return flat

"""Train of Algorithm 1, for any learner: task after task, every row evaluated, every moment recoverable."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import nn

from snv.config import RunConfig, as_begun
from snv.data import TaskStream
from snv.errors import DivergedError, Interrupted, ShortOfMemoryError, UserError
from snv.files import State, digest
from snv.learners import bytes_beyond_network, require_parallel
from snv.machine import is_shortage, let_go, ranks, told
from snv.runs.checked import fitting, require_config, require_environment
from snv.runs.directory import RunDirectory, load_record, require_space
from snv.runs.exam import Exam
from snv.runs.given import Given, given, marks
from snv.runs.interrupts import Interrupts
from snv.runs.meter import Meter
from snv.runs.neurons import FILE
from snv.runs.parts import note_parts, out_of_memory, parts_after
from snv.runs.prepare import Prepared, bytes_needed, left_as_found, prepare
from snv.runs.progress import Progress
from snv.runs.record import Record
from snv.runs.same import check_marks, check_same
from snv.runs.track import Listeners, Several, Tracker, numbers_in
from snv.training import Fault, Place, Reporter, Training, judged, learn_task, loss_so_far, note_of, said

log = logging.getLogger(__name__)

COMPUTED = ("cpu", "device", "precision", "threads")
"""Of the environment: what decides the last bits of a result, which a record says."""


def run(
    config: RunConfig,
    out: Path,
    progress: Progress = lambda *_: None,
    *,
    stop_after: int | None = None,
    network: nn.Module | None = None,
    data: Any = None,
    stream: TaskStream | None = None,
    pause_after: int | None = None,
    tracker: Tracker | None = None,
    saved: Callable[[], None] = lambda: None,
) -> Record:
    """Learn every task of the stream and return the record; continue what an earlier call left unfinished.

    Whatever is wrong with the request is a `UserError` before anything is trained or written. A finished run is
    returned as it is. After a kill at any moment the same call continues and ends with the same bits on CPU.

    ``stop_after``: so many tasks, and the same call without it does the others. ``network``: a module of one's own, of
    which a copy is trained as it is, but for the linear layer that gives its output. ``data``: a source, a pair
    (images, labels) or a dataset of (image, label) instead of the one that ``config.data`` names.

    ``stream`` stands in for the tasks that the config describes, whose data are then not even looked for. After
    ``pause_after`` epochs of training in all, the unfinished record is returned, and a later call goes on from there.
    ``tracker`` hears of every epoch and task, see `snv.runs.trackers`; ``saved`` is called after every checkpoint.

    Where torchrun has started several processes, each calls this and they train together; the first writes and tells.
    """
    if stop_after is not None and stop_after < 1:
        raise UserError(f"A run stops after 1 task or more; got --stop-after {stop_after}.")
    config, handed = given(config, network, data)
    handed = replace(handed, stream=stream)
    require_parallel(config.method)
    with ranks.together():
        listeners = Listeners(progress, tracker or Several(), saved) if ranks.first() else Listeners()
        return _run(config, out, handed, stop_after, pause_after, listeners)


def _run(
    config: RunConfig,
    out: Path,
    handed: Given,
    stop_after: int | None,
    pause_after: int | None,
    listeners: Listeners,
) -> Record:
    """The same, once it is known who takes part."""
    directory, environment = RunDirectory(out), None
    directory.check_is_ours()
    if directory.is_run():
        stored, environment = directory.read("config.json"), directory.read("environment.json")
        require_config(stored, out)
        require_environment(environment, out)
        config = as_begun(config, stored)
        check_same(config, stored, out)
        check_marks(marks(config, handed), environment, out)
        record = load_record(out)
        if record.status == "finished":
            return record
    prepared = prepare(config, listeners.progress, environment, handed)
    require_space(out, bytes_needed(prepared))
    with directory.locked(), left_as_found(), closing(listeners.tracker):
        torch.set_num_threads(prepared.environment["threads"])
        parts = 1
        while True:
            try:
                return _Run(prepared, directory, listeners, pause_after, parts).finish(stop_after)
            except ShortOfMemoryError as error:
                parts, environment = parts_after(error, prepared.learner, out), prepared.environment
            except Exception as error:
                if not is_shortage(error):
                    raise
                raise out_of_memory(f"Memory ran out ({told(error)}).", out) from error
            del prepared
            let_go()
            listeners.tracker.close()
            prepared = prepare(config, listeners.progress, environment, handed)


class _Paused(Exception):  # noqa: N818 - it was asked for
    """As many epochs are trained as were asked for, and everything is saved."""


class _Run:
    """One run under way."""

    def __init__(
        self,
        prepared: Prepared,
        directory: RunDirectory,
        listeners: Listeners,
        pause_after: int | None = None,
        parts: int = 1,
    ) -> None:
        """``parts`` are those in which the images of a step go through the network: more where memory ran out."""
        self.config, self.stream, self.learner = prepared.config, prepared.stream, prepared.learner
        self.directory, self.environment, self.pause_after = directory, prepared.environment, pause_after
        self.tell, self.tracker, self.saved = listeners
        self.note = note_of(self.tell)
        self.record = Record.blank(self.config.as_dict(), len(self.stream))
        self.meter = Meter(self.learner.setting.device)
        self.exam = Exam(self.learner, self.stream, self.record, self.meter, self.tell)
        self.log: list[dict[str, Any]] = []
        self.learner.parts = parts
        self.learner.reporter = Reporter(
            phase=self.meter.phase,
            counted=self.meter.counted,
            tell=self._tell_of_task,
            on_step=self._after_step,
            on_epoch=self._after_epoch,
            warn=self._warn,
        )
        self.steps = 0  # in this process
        self.ranks: list[int] = []  # how many processes worked on it, one number after the other; none: always one
        self.valuing: list[float] = []  # seconds, task by task
        self.task, self.place = 0, Place()  # what comes next
        self.interrupts = Interrupts()
        self.saved_at = time.monotonic()

    def finish(self, stop_after: int | None = None) -> Record:
        """From wherever the directory stands to the end, or until so many tasks are learned."""
        n = len(self.stream) if stop_after is None else min(stop_after, len(self.stream))
        with self.interrupts.watched():
            self._restore()
            self.tracker.begin(self.record.config, self._steps)
            with suppress(_Paused), self._noting_divergence():
                if self.task == 0 and self.place == Place():
                    self.exam.of_untrained()
                while self.task < n:
                    self._learn_task()
            if self.task == len(self.stream):
                self._end()
        return self.record

    def _end(self) -> None:
        """After the last task."""
        self.exam.of_speed()
        self.record.cost["bytes_on_disk"] = self.directory.bytes_on_disk()
        self.record.status = "finished"
        self._export()
        self.tracker.end(numbers_in(self.record.metrics))

    @contextmanager
    def _noting_divergence(self) -> Iterator[None]:
        """The state before it is kept, and the record says how it came to that."""
        try:
            yield
        except DivergedError as error:
            self.directory.save_now(self._state(self.place.training))
            self._export()
            kept = f"{self.directory.path} has the state when that epoch began; other settings need another --out."
            raise DivergedError(str(error), kept) from None

    # ---- one task

    def _learn_task(self) -> None:
        t, learner = self.task, self.learner
        whole = self.stream.upto(t) if learner.card.sees == "all tasks" else self.stream.task(t)
        task = whole.without_test()
        with self.meter.phase("train"):
            learn_task(learner, task, self.place)
        self._check_alike()
        n_bytes = bytes_beyond_network(learner, task)
        with self.meter.phase("evaluate"):
            for fault in judged(learner, task) if learner.ready else []:
                self._warn(fault)
        task.close()
        if learner.ready:
            self.exam.of_row(t)
        self.record.tasks_done, self.record.capacity = t + 1, learner.capacity()
        self.record.bytes_kept.append(n_bytes)
        self._note_valuation()
        self.task, self.place = t + 1, Place()
        self.directory.save_task(t + 1, self._state(), self.config.keep)
        self._export()
        self._export_neurons()
        self.saved()
        self._track_task(t)
        self._stop_if_asked(*ranks.largest(self.interrupts.signum or 0))

    def _check_alike(self) -> None:
        """Processes that train together hold the same network, masks, certificates and memory, bit for bit."""
        if ranks.size() > 1:
            ranks.require_alike(digest(self.learner.state_dict()), f"after task {self.task + 1}")

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
        self.note(lambda: loss_so_far(training))
        overdue = time.monotonic() - self.saved_at >= self.config.checkpoint_seconds
        self.steps += 1
        due = asked = 0
        if self.steps % max(1, ranks.size() // 8) == 0:  # many processes take long to agree
            due, asked = ranks.largest(overdue and ranks.first(), self.interrupts.signum or 0)
        pausing = self.pause_after is not None and len(self.log) >= self.pause_after
        if due or pausing or asked:
            self.directory.save_now(self._state(training.state_dict()))
            self._export()
            self.saved()
            self._stop_if_asked(asked)
        if pausing:
            raise _Paused

    def _after_epoch(self, entry: dict[str, Any]) -> None:
        self.log.append(entry)
        self.tracker.numbers(numbers_in(entry), self._steps)

    def _warn(self, fault: Fault) -> None:
        """The record says it too."""
        self.record.warnings.append(fault)
        said(fault)

    @property
    def _steps(self) -> int:
        """Epochs and tasks so far."""
        return len(self.log) + self.task

    def _track_task(self, t: int) -> None:
        """What is known of every task after task t, and the metrics so far."""
        row = {f"accuracy/task {j + 1}": float(value) for j, value in enumerate(self.record.accuracy[t, : t + 1])}
        self.tracker.numbers(numbers_in(row | self.record.metrics), self._steps)

    def _tell_of_task(self, what: str, done: float, total: float) -> None:
        self.tell(f"task {self.task + 1} of {len(self.stream)}, {what}", done, total)

    def _stop_if_asked(self, signum: int) -> None:
        """By a signal to any process; 0 is none."""
        if signum:
            raise Interrupted(signum, str(self.directory.path))

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
            "counts": self.meter.counts() | {"macs": self._macs()},
        }

    def _restore(self) -> None:
        """Go on from the newest checkpoint, or note down what begins."""
        state = self.directory.newest() if self.directory.is_run() else None
        if state is not None:
            with fitting(self.directory.checkpoints):
                self._go_on_from(state)
            if costs := self.directory.measured():
                self.meter.load_measured(costs)
                self.ranks.extend(costs.get("ranks", []))
                self.valuing.extend(costs.get("valuation_seconds", [])[: self.task])
            log.info("continuing at task %d, stage %d", self.task + 1, self.place.stage + 1)
        if ranks.size() != (self.ranks or [1])[-1]:
            self.ranks.append(ranks.size())
        note_parts(self.record, self.learner, self.task)
        self.directory.write("environment.json", self.environment)
        self._export()
        self._export_neurons()
        self.directory.write("config.json", self.record.config)

    def _go_on_from(self, state: State) -> None:
        self.task, self.place = state["task"], Place(state["stage"], state["training"])
        self.learner.load_state_dict(state["learner"])
        self.record.load_results(state["record"])
        self.log.extend(state["log"])
        self.meter.load_counts(state["counts"] | ({} if ranks.first() else {"macs": {}}))

    def _export(self) -> None:
        """The copies for people, and the clock."""
        self.saved_at = time.monotonic()
        computed = {name: self.environment[name] for name in COMPUTED if name in self.environment}
        self.record.cost = self.record.cost | self.meter.measured() | {"macs": self._macs(), "computed": computed}
        if self.ranks:
            self.record.cost["ranks"] = list(self.ranks)
        if self.valuing:
            self.record.cost["valuation_seconds"] = list(self.valuing)
        measured = {key: value for key, value in self.record.cost.items() if key != "macs"}
        self.directory.write("costs.json", measured)
        self.directory.write_log(self.log)
        stored = {"status": self.record.status, **self.record.results(), "macs": self.record.cost["macs"]}
        self.directory.write("record.json", stored)

    def _macs(self) -> dict[str, float]:
        """By phase, of all processes."""
        parts = ranks.everyones(dict(self.meter.macs))
        return {phase: sum(part.get(phase, 0.0) for part in parts) for phase in dict.fromkeys(chain(*parts))}

    def _export_neurons(self) -> None:
        """What the neurons are worth to the tasks learned so far, of methods that know it."""
        if self.task and ranks.first() and (table := self.learner.neuron_table()) is not None:
            table.save(self.directory.path / FILE)

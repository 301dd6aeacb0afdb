"""One task more: a learner is made around what is known, trained on the pictures, and its result judged."""

from __future__ import annotations

import dataclasses
import time

import torch

from snv.data import InMemory, Split, Task
from snv.errors import DivergedError, UserError
from snv.learners import SNV, SNVConfig, add_to_common
from snv.metrics import calibration_error, temperature
from snv.model.knowledge import AT_ONCE, LARGEST, Knowledge
from snv.model.network import detail, shrunk
from snv.model.pictures import Pictures, Progress, as_task
from snv.model.task import Learned, TaskInfo, changed_fingerprints, fingerprints
from snv.training import (
    Fault,
    Reporter,
    Scenario,
    Setting,
    Training,
    TrainSettings,
    judged,
    learn_task,
    loss_so_far,
    note_of,
    said,
)

PASSES = 45_000
"""Pictures shown while a task is learned, however few there are, between 8 and 40 times each."""
RATE, SMOOTHING = 0.004, 0.1
"""Of the peak of a rate that decays, and of labels: as in the small streams."""
PASSES_BESIDE_FILE = 13_000
"""The same where a pretrained network knows most of it already."""
DENSE_SHARE = 0.5
"""Of the epochs, before neurons are chosen: so small a subnetwork wants them chosen well."""


def learn(knowledge: Knowledge, pictures: Pictures, name: str, epochs: int | None, progress: Progress) -> Learned:
    """Learn the pictures as the next task; every earlier task is verified when this one is frozen."""
    start = time.perf_counter()
    _require_fingerprints(knowledge)
    uid, used = knowledge.next_uid, knowledge.used()
    task = as_task(pictures, uid, sum(len(info.classes) for info in knowledge.tasks), knowledge.spec["seed"])
    passes = PASSES if knowledge.spec.get("features") is None else PASSES_BESIDE_FILE
    times = epochs or max(8, min(40, passes // len(task.train)))
    learner = learner_around(knowledge, times)
    faults = _train(learner, _as_seen(task.without_test(), detail(knowledge.spec)), progress)
    specialists = knowledge.specialists
    specialists.network.eval()
    _compare(learner, knowledge, task.without_test(), progress)
    knowledge.next_uid += 1
    knowledge.values = list(learner.values)
    info = _judged(knowledge, name, uid, task, len(pictures.labels), start)
    knowledge.tasks.append(info)
    knowledge.probes[uid] = specialists.probe_logits(len(knowledge.tasks) - 1)
    task.close()
    mine = int(specialists.subnetworks[-1].mask.sum())
    earlier = tuple(knowledge.names()[:-1])
    warnings = tuple(fault["text"] for fault in faults)
    return Learned(info, knowledge.used() - used, mine, knowledge.used(), specialists.neurons.n, earlier, warnings)


def learner_around(knowledge: Knowledge, epochs: int) -> SNV:
    """A learner that goes on from what is known."""
    specialists, spec = knowledge.specialists, knowledge.spec
    train = TrainSettings(epochs=epochs, lr=RATE, schedule="linear", warmup=1, smoothing=SMOOTHING, precision="fp32")
    seen = dataclasses.replace(knowledge.preprocess, shape=specialists.shape)
    scenario: Scenario = "cil" if specialists.common is None else "til"  # with it, all classes are compared there
    setting = Setting(specialists.network, scenario, train, seen, specialists.device, spec["seed"], n_tasks=1)
    config = SNVConfig(capacity=spec["capacity"], largest=LARGEST, dense_share=DENSE_SHARE, common="none")
    learner = SNV(setting, config, specialists)
    learner.blocks, learner.values = knowledge.blocks(), list(knowledge.values)
    learner.valuations = [None] * len(learner.values)
    return learner


def _as_seen(task: Task, times: int) -> Task:
    """The pictures as small as the network sees them."""
    if times == 1:
        return task
    return Task(task.id, task.block, task.names, _small(task.train, times), _small(task.val, times), None)


def _small(split: Split, times: int) -> InMemory:
    assert isinstance(split, InMemory)
    parts = [shrunk(part.float(), times).round().to(torch.uint8) for part in split.pixels.split(AT_ONCE)]
    return InMemory(torch.cat(parts), split.labels)


@torch.no_grad()
def _compare(learner: SNV, knowledge: Knowledge, task: Task, progress: Progress) -> None:
    """What the pictures leave in the common space, if there is one."""
    specialists, times = knowledge.specialists, detail(knowledge.spec)
    if specialists.common is None:
        return
    setting = dataclasses.replace(learner.setting, preprocess=knowledge.preprocess)
    reporter = Reporter(tell=lambda _, done, of: progress("comparing", done, of))
    add_to_common(specialists, task, setting, reporter, lambda images: shrunk(images, times))


def _train(learner: SNV, task: Task, progress: Progress) -> list[Fault]:
    """All stages of the task; returns what went wrong."""
    note, faults = note_of(progress), []

    def warn(fault: Fault) -> None:
        faults.append(fault)
        said(fault)

    def report(training: Training) -> None:
        at, n = training.progress, len(training.train)
        note(lambda: loss_so_far(training))
        name = {"dense": "learning", "consolidate": "consolidating"}[training.stage.name]
        progress(name, at.epoch * n + at.images, training.settings.epochs * n)

    learner.reporter = Reporter(on_step=report, warn=warn)
    try:
        with torch.random.fork_rng(devices=[]):
            learn_task(learner, task)
    except DivergedError as error:
        raise DivergedError(
            error.what, "The model is as it was before. Look at the pictures and their names."
        ) from None
    for fault in judged(learner, task):
        warn(fault)
    return faults


def _judged(knowledge: Knowledge, name: str, uid: int, task: Task, pictures: int, start: float) -> TaskInfo:
    """The newest task: temperatures from validation pictures, accuracy and calibration from held-out ones."""
    val, test, t, first = task.val, task.test, len(knowledge.tasks), task.block.start
    assert isinstance(val, InMemory) and isinstance(test, InMemory)
    least = 1.0 if len(val) < 50 else 0.0  # few pictures, all answered right, would make it overconfident
    own = max(least, temperature(knowledge.logits(val.pixels, t), val.labels - first))
    every = max(least, temperature(knowledge.logits(val.pixels, None), val.labels))
    held_out, labels = knowledge.logits(test.pixels, t), test.labels - first
    info = TaskInfo(
        name=name,
        uid=uid,
        classes=task.names,
        pictures=pictures,
        accuracy=100 * float((held_out.argmax(1) == labels).double().mean()),
        temperature=own,
        open_temperature=every,
        calibration_error=calibration_error((held_out / own).softmax(1), labels),
        seconds=time.perf_counter() - start,
        certificate=knowledge.specialists.certificates[-1].state(),
    )
    return dataclasses.replace(info, fingerprints=fingerprints(info, knowledge.preprocess))


def require_new_name(knowledge: Knowledge, name: str, replace: bool) -> None:
    if not name or not name.isprintable() or "/" in name or name.strip() != name:
        raise UserError(f"{name!r} cannot be the name of a task: use letters, digits, spaces and signs, but no slash.")
    if name in knowledge.names() and not replace:
        classes = knowledge.tasks[knowledge.index(name)].classes
        raise UserError(
            f"There is a task {name!r} already, with the classes {', '.join(classes)}. Give the new one another name "
            "(--task), or replace the old one (--replace): it is then forgotten."
        )


def require_new_classes(knowledge: Knowledge, pictures: Pictures) -> None:
    tasks = {name: task.name for task in knowledge.tasks for name in task.classes}
    again = [name for name in pictures.classes if name in tasks]
    if again:
        raise UserError(
            f"The class {again[0]!r} is known from the task {tasks[again[0]]!r}. Rename the folder, forget that task, "
            "or let both stand side by side (--repeat-classes)."
        )


def _require_fingerprints(knowledge: Knowledge) -> None:
    """Nothing is learned on top of a task whose names or temperatures changed."""
    for task in knowledge.tasks:
        if changes := changed_fingerprints(task, knowledge.preprocess):
            raise UserError(
                f"The task {task.name!r} is not what it was when it was learned: {'; '.join(changes.values())}. "
                "Restore the model from a copy."
            )

"""A run before its first step: data found, network built, method made; whatever is wrong is said here."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import torch
from torch import nn

from snv.config import RunConfig, build, without_retired
from snv.data import Preprocess, Source, TaskStream, is_permuted, load_source
from snv.errors import UserError
from snv.files import load_state
from snv.learners import Learner, is_own, method_named
from snv.machine import ranks, resolve_device, resolve_precision
from snv.networks import Network, build_network, bytes_of, own_body
from snv.runs.checked import fitting, require_config, require_environment
from snv.runs.directory import RunDirectory
from snv.runs.environment import data_fingerprint, describe
from snv.runs.given import NOTHING, Given, Own, given, marks
from snv.runs.progress import Progress
from snv.runs.same import check_marks
from snv.training import Setting


@contextmanager
def left_as_found() -> Iterator[None]:
    """Give PyTorch's own generator and number of threads back afterwards."""
    threads = torch.get_num_threads()
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            torch.set_num_threads(threads)


@dataclass(frozen=True)
class Prepared:
    """A run that can start: data found, network built, learner made."""

    config: RunConfig
    environment: dict[str, Any]
    stream: TaskStream
    learner: Learner[Any]
    preprocess: Preprocess


def prepare(
    config: RunConfig, progress: Progress, environment: dict[str, Any] | None = None, handed: Given = NOTHING
) -> Prepared:
    """Find the data, build network and learner. ``environment`` is that of a run to be continued."""
    stream = handed.stream or stream_of(config, progress, handed.source)
    environment = environment or _environment(config, stream.source) | marks(config, handed)
    _check_data(stream.source, environment, config.data.name)
    learner, preprocess = build_learner(config, environment, stream.source, stream.n_told, handed.network)
    return Prepared(config, environment, stream, learner, preprocess)


def _check_data(source: Source, environment: dict[str, Any], name: str) -> None:
    """Refuse to go on with other images or labels than a run began with; older runs did not note their pixels."""
    for what, mark in _fingerprints(source).items():
        if environment.get(what, mark) != mark:
            raise UserError(
                f"The data of this run have changed since it began ({name}): the fingerprint of its {what} was "
                f"{environment[what]} and is now {mark}. Restore them, or start anew with another --out."
            )


def _fingerprints(source: Source) -> dict[str, str]:
    content = source.content()
    return {"data": data_fingerprint(source)} | ({} if content is None else {"pixels": content})


def stream_of(config: RunConfig, progress: Progress = lambda *_: None, source: Source | None = None) -> TaskStream:
    """The tasks a config describes, with their data found and every class large enough to be split."""
    data = config.data
    if source is None:
        source = load_source(data.name, data_dir=data.dir, size=data.size, workers=data.workers, progress=progress)
    stream = TaskStream(
        source,
        data.tasks,
        config.seed,
        permuted=is_permuted(data.name),
        n_classes=data.classes,
        per_class=data.per_class,
        judged_on=data.judged_on,
        order=data.order,
        split=data.split,
    )
    stream.check()
    return stream.half(data.half) if data.half else stream


def build_learner(
    config: RunConfig, environment: dict[str, Any], source: Source, n_tasks: int, own: nn.Module | None = None
) -> tuple[Learner[Any], Preprocess]:
    """The method of a run with its network, untrained, and what turns this source's pixels into its input."""
    device = resolve_device(environment["device"])
    preprocess = Preprocess.of(source)
    network = _network(config, source.shape, own).to(device)
    if config.train.channels_last:
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    train = dataclasses.replace(config.train, precision=environment["precision"])
    setting = Setting(network, config.scenario, train, preprocess, device, config.seed, n_tasks)
    learner = method_named(config.method)(setting, config.learner_config())
    if own is not None and network.body not in list(learner.network.modules()):
        instead = ", or set learner.network=adapted" if hasattr(config.learner_config(), "network") else ""
        raise UserError(f"{config.method} trains a network of its own, not yours. Leave yours out{instead}.")
    return learner, preprocess


def _network(config: RunConfig, shape: tuple[int, int, int], own: nn.Module | None) -> Network:
    """The network that the settings name, or a copy of one's own."""
    if own is not None:
        return Network(own_body(own, shape), config.seed)
    it = config.network
    return build_network(it.name, shape, config.seed, width=it.width, stem=it.stem, hidden=it.hidden)


def open_run(path: Path, data_dir: Path | None, progress: Progress, **own: Unpack[Own]) -> Prepared:
    """A recorded run with its data and an untrained learner.

    What Python gave to the run is given again, and the file of a method of one's own is named again: no file is
    executed because a directory says so.
    """
    directory = RunDirectory(path)
    if not directory.is_run():
        raise UserError(f"{path} is not a run directory: it has no config.json. Give the --out of a `snv run`.")
    stored, environment = directory.read("config.json"), directory.read("environment.json")
    require_config(stored, path)
    require_environment(environment, path)
    if is_own(stored["method"]):
        if own.get("own_method") is None:
            raise UserError(
                f"The method of {path} is a file, and would be executed. Allow it: --own-method {stored['method']}"
            )
        stored["method"] = own["own_method"]
    stored = without_retired(stored, path)
    if data_dir is not None:
        stored["data"]["dir"] = str(data_dir)
    config, handed = given(build(RunConfig, stored), own.get("network"), own.get("data"))
    check_marks(marks(config, handed), environment, path)
    return prepare(config, progress, environment, handed)


def restore(learner: Learner[Any], path: Path, n_done: int) -> None:
    """Bring the learner of a run to where it was after so many tasks."""
    checkpoint = RunDirectory(path).task_path(n_done)
    if not checkpoint.exists():
        raise UserError(
            f"{checkpoint} does not exist: the run has not got that far, or keeps only its last task (keep=last). "
            "Finish the run, or choose a task whose checkpoint is there."
        )
    with fitting(checkpoint):
        learner.load_state_dict(load_state(checkpoint)["learner"])


@ranks.told
def _environment(config: RunConfig, source: Source) -> dict[str, Any]:
    device = resolve_device(config.device)
    return (
        describe()
        | {
            "device": str(device),
            "precision": resolve_precision(config.train.precision, device),
            "threads": config.threads or torch.get_num_threads(),
        }
        | _fingerprints(source)
    )


def bytes_needed(prepared: Prepared) -> int:
    """Checkpoints of all tasks, and one within a task, and its replacement.

    Within a task there are the weights and two moments now and as the epoch began, and the weights of the best epoch.
    """
    learner = prepared.learner
    weights = bytes_of(learner.network) + learner.bytes_kept(prepared.stream.blocks[-1].stop)
    tasks = len(prepared.stream) if prepared.config.keep == "all" else 2
    return weights * (tasks + 14) + 2**20

"""How long runs will take and how much disk they need, from runs that are done, else from how fast this machine is."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from snv.config import RunConfig
from snv.data import SOURCES, is_permuted
from snv.networks import build_network, bytes_of
from snv.study.ledger import Kept

TRAINING_SHARE = 0.7
"""Of a data set's images."""


@dataclass(frozen=True)
class Guess:
    """What a run will cost."""

    seconds: float | None  # None: nobody knows how many images there are
    bytes: int  # that stay on disk
    rough: bool  # no run of this method on this stream is known


@dataclass(frozen=True)
class Known:
    """A run that is done: what was asked, and what it cost."""

    config: RunConfig
    cost: dict[str, Any]


class Estimates:
    """Guesses from the runs that are done: seconds in proportion to epochs × images × operations of the network."""

    def __init__(self, known: Iterable[Kept]) -> None:
        usable = [(one.config, one.cost) for one in known if one.config is not None and one.cost.get("seconds")]
        self._known = [Known(config, cost) for config, cost in usable if work(config)]

    def of(self, config: RunConfig) -> Guess:
        """Of the nearest runs there are: same method and stream, same method, any; else as this machine trains."""
        same = _stream(config)
        near: list[Callable[[RunConfig], bool]] = [
            lambda other: _stream(other) == same and other.scenario == config.scenario,
            lambda other: _stream(other) == same,
            lambda other: other.method == config.method,
            lambda _: True,
        ]
        for i, is_near in enumerate(near):
            if found := [one for one in self._known if is_near(one.config)]:
                return Guess(_scaled(found, config), _bytes_kept(found if i < 2 else [], config), i >= 2)
        amount = work(config)
        return Guess(amount * seconds_per_mac() if amount else None, _bytes_kept([], config), True)


def _scaled(found: list[Known], config: RunConfig) -> float | None:
    rates = [sum(one.cost["seconds"].values()) / work(one.config) for one in found]
    return work(config) * statistics.median(rates) or None


def _bytes_kept(found: list[Known], config: RunConfig) -> int:
    """Of the checkpoints that stay: as large as those of such runs, or at least as the network."""
    sizes = [one.cost["bytes_on_disk"] for one in found if one.cost.get("bytes_on_disk")]
    of_one = statistics.median(sizes) if sizes else _network_of(config)[1]
    return int(of_one * (n_tasks(config) if config.keep == "all" else 1))


def n_tasks(config: RunConfig) -> int:
    tasks = config.data.tasks
    return tasks if isinstance(tasks, int) else len(tasks)


@cache
def _images(name: str, classes: int | None, per_class: int | None) -> float:
    """Training images of all tasks of one pass; 0 if the data set is not known."""
    source = SOURCES.get(name)
    if source is None or source.images is None or source.classes is None:
        return 0.0
    each = min(per_class or source.images, source.images / source.classes)
    return TRAINING_SHARE * each * (classes or source.classes)


def work(config: RunConfig) -> float:
    """Multiply-accumulates of plain training; 0 if nobody knows how many images there are."""
    images = _images(config.data.name, config.data.classes, config.data.per_class)
    if is_permuted(config.data.name):
        images *= n_tasks(config)
    if config.method == "joint" and config.learner_config().when != "last":
        images *= (n_tasks(config) + 1) / 2
    return 3 * images * config.train.epochs * _network_of(config)[0]


def _network_of(config: RunConfig) -> tuple[float, int]:
    """Multiply-accumulates per image, and bytes."""
    network = config.network
    return _measured(network.name, shape_of(config), network.width, network.stem, network.hidden)


def shape_of(config: RunConfig) -> tuple[int, int, int]:
    """Of an image; of a data set that is not known, as if it were photographs of 64 pixels."""
    source = SOURCES.get(config.data.name)
    side = config.data.size or (source.size if source else None) or 64
    return source.channels if source else 3, side, side


@cache
def _measured(
    name: str, shape: tuple[int, int, int], width: int | None, stem: str | None, hidden: tuple[int, ...] | None
) -> tuple[float, int]:
    network = build_network(name, shape, 0, width=width, stem=stem, hidden=hidden).eval()
    with torch.inference_mode(), FlopCounterMode(display=False) as counter:
        network.body(torch.zeros(1, *shape))
    return counter.get_total_flops() / 2, bytes_of(network)


@cache
def seconds_per_mac() -> float:
    """Of training here and now: two steps of a small ResNet, the first to warm up."""
    network, images = build_network("resnet18", (3, 32, 32), 0, width=16), torch.zeros(16, 3, 32, 32)
    seconds = 0.0
    for _ in range(2):
        start = time.perf_counter()
        network.body(images).sum().backward()
        seconds = time.perf_counter() - start
    return seconds / (3 * len(images) * _measured("resnet18", (3, 32, 32), 16, None, None)[0])


def _stream(config: RunConfig) -> tuple[object, ...]:
    """What a run must share with another to take as long per image and epoch."""
    return config.method, config.data.name, config.data.size, config.network

"""What a run was asked for, flat and complete: runs are alike, or differ in something that has a name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from snv.config import RunConfig
from snv.data import SOURCES
from snv.errors import UserError
from snv.learners import LEARNERS
from snv.runs import Result

BESIDE = ("seed", "scenario", "method", "device", "threads", "keep", "checkpoint_seconds", "data.dir", "data.workers")
"""Settings that are told elsewhere, or that change no result by intent."""

Settings = Mapping[str, Any]
"""By dotted name."""


def settings_of(result: Result) -> dict[str, Any]:
    """All settings that may change a run's results but method, scenario and seed; what older runs do not name, too."""
    told = {**_unsaid(result.method, result.scenario), **_flat(result.record.config)}
    return {name: value for name, value in told.items() if name not in BESIDE}


@cache
def _unsaid(method: str, scenario: str) -> Settings:
    """What a run does in what it does not say: the defaults, or what was always done before there was a choice."""
    if method not in LEARNERS or scenario not in LEARNERS[method].card.scenarios:
        return {}
    card = LEARNERS[method].card
    older = {f"learner.{name}": value for name, value in {**card.retired, **card.added}.items()}
    return {**_flat(RunConfig(method, scenario).as_dict()), **older}


def _flat(config: Settings, above: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in config.items():
        found |= _flat(value, f"{above}{name}.") if isinstance(value, dict) else {above + name: value}
    return found


def differing(many: Sequence[Settings]) -> list[str]:
    """The settings that all name and not all agree on."""
    shared = set(many[0]).intersection(*many[1:]) if many else set()
    return sorted(name for name in shared if any(one[name] != many[0][name] for one in many))


def named(settings: Settings, names: Sequence[str]) -> str:
    """Some settings as one would ask for them: ``learner.capacity=0.1, train.lr=0.01``."""
    return ", ".join(f"{name}={'none' if settings[name] is None else settings[name]}" for name in names)


def check_one_stream(results: Sequence[Result]) -> None:
    """Refuse runs that learned other tasks, or in another network: their numbers cannot stand side by side."""
    streams = [_parts(result, ("data", "network")) for result in results]
    for name in differing(streams):
        other = next(i for i, stream in enumerate(streams) if stream[name] != streams[0][name])
        raise UserError(
            f"These runs are not of one stream: {name} is {streams[0][name]} in {results[0].path} and "
            f"{streams[other][name]} in {results[other].path}. Give runs of one stream."
        )


def _parts(result: Result, parts: Sequence[str]) -> dict[str, Any]:
    return {name: value for name, value in settings_of(result).items() if name.split(".")[0] in parts}


def has_stream(result: Result, data: str, n_tasks: int) -> bool:
    """Whether a run learned all classes and images of a data set, at its own size, in so many tasks."""
    told, source = settings_of(result), SOURCES[data]
    whole = told["data.classes"] in (None, source.classes) and told["data.size"] in (None, source.size)
    return told["data.name"] == data and result.record.n_tasks == n_tasks and whole and told["data.per_class"] is None


def description(results: Sequence[Result]) -> str:
    """Network and length of training, where all runs share them."""
    told = [settings_of(result) for result in results]
    if not told:
        return ""
    first, mixed = told[0], differing(told)
    name = first["network.name"] if first["network.width"] is None else _network(first)
    parts = [] if any(key.startswith("network") for key in mixed) else [name]
    return ", ".join([*parts, *([] if "train.epochs" in mixed else [f"{first['train.epochs']} epochs a task"])])


def _network(settings: Settings) -> str:
    return f"{settings['network.name']} of width {settings['network.width']}"

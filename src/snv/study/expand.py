"""The runs a study stands for: every combination of its groups, named, complete and checked."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path
from typing import Any

from snv.config import (
    RunConfig,
    build,
    flat,
    layered,
    nested,
    own_of,
    own_settings,
    read_toml,
    require_no_code,
)
from snv.errors import UserError
from snv.learners import LEARNERS, method_named
from snv.study.fingerprint import fingerprint
from snv.study.study import Group, Settings, Study, require_plain_name

MOST = 100_000
"""Runs of a group."""


@dataclass(frozen=True)
class Job:
    """A run of a study."""

    group: str
    name: str
    config: RunConfig

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint(self.config)

    @property
    def kind(self) -> str:
        """Its name without the seed."""
        return self.name.removesuffix(f"-seed{self.config.seed}")

    @property
    def place(self) -> str:
        """Where its record and its directory are, below those of the study."""
        return f"{self.group}/{self.name}"

    def reading_from(self, data_dir: str) -> Job:
        """The same run with its data files in another folder."""
        data = dataclasses.replace(self.config.data, dir=data_dir)
        return dataclasses.replace(self, config=dataclasses.replace(self.config, data=data))


@dataclass(frozen=True)
class Plan:
    """The runs, first seeds first, and what of the grid no method can do."""

    jobs: tuple[Job, ...]
    skipped: tuple[str, ...] = ()

    def only(self, patterns: Sequence[str]) -> Plan:
        """The runs whose name or group/name, with or without seed, is like one of the patterns; all if none."""
        if not patterns:
            return self
        jobs = tuple(job for job in self.jobs if any(_is_like(job, pattern) for pattern in patterns))
        if not jobs:
            names = ", ".join(job.place for job in self.jobs[:3])
            raise UserError(f"No run is called like {' or '.join(patterns)}. There are, for example: {names}.")
        return Plan(jobs, self.skipped)

    def reading_from(self, data_dir: Path | None) -> Plan:
        """The same runs with data files in another folder, if one is given."""
        if data_dir is None:
            return self
        return Plan(tuple(job.reading_from(str(data_dir)) for job in self.jobs), self.skipped)


@dataclass(frozen=True)
class Choice:
    """One value of one dimension of a grid: how it is named, and which settings it stands for."""

    label: str
    settings: Settings


@dataclass(frozen=True)
class Cell:
    """What of a group has been chosen but the seed."""

    method: str
    scenario: str
    label: str
    values: dict[str, Any]


def expand(study: Study, seeds: Sequence[int] = ()) -> Plan:
    """Every run of a study; what a method cannot do is left out and told."""
    jobs: list[tuple[int, Job]] = []
    _check_number(study, seeds)
    skipped: dict[str, None] = {}
    for name, group in study.groups.items():
        for cell in _cells(study, name, group):
            if cell.scenario not in method_named(cell.method).card.scenarios:
                skipped[f"{name}: {cell.method} cannot do {cell.scenario.upper()}"] = None
            elif f"{cell.method}-{cell.scenario}" not in group.without:
                jobs += enumerate(_jobs(name, cell, seeds or group.seeds or study.seeds))
    in_order = tuple(job for _, job in sorted(jobs, key=lambda pair: pair[0]))
    _check_names(in_order)
    return Plan(in_order, tuple(skipped))


def _jobs(group: str, cell: Cell, seeds: Sequence[int]) -> Iterator[Job]:
    values = cell.values | {"method": cell.method, "scenario": cell.scenario}
    try:
        config: RunConfig = build(RunConfig, values)
    except UserError as error:
        raise UserError(f"{group}/{cell.label}: {error}") from None
    for seed in seeds:
        yield Job(group, f"{cell.label}-seed{seed}", dataclasses.replace(config, seed=seed))


def _cells(study: Study, name: str, group: Group) -> Iterator[Cell]:
    """Every combination of a group but for seeds."""
    own = [*_tuned(study, study.tuned), study.own, *_tuned(study, group.tuned), group.own]
    streams = _streams(study, name, group)
    for stem, stream in streams.items():
        scenarios = group.scenarios or (stream.get("scenario", "til"),)
        for method, scenario in itertools.product(group.methods_in(stream), scenarios):
            base = [stream, study.settings, group.settings, *own_of(own, method, scenario)]
            words = [stem] if group.methods is None else [f"{short(method)}-{scenario}"]
            if group.methods is None and group.scenarios is not None and len(scenarios) > 1:
                words.append(scenario)
            if group.methods is not None and len(streams) > 1:
                words.append(stem)
            for choices in itertools.product(*_dimensions(group, method)):
                label = "-".join([*words, *(choice.label for choice in choices if choice.label)])
                yield Cell(method, scenario, label, layered([*base, *(choice.settings for choice in choices)]))


def short(method: str) -> str:
    """A method as part of a file's name: of one's own, the name of its class."""
    return method.rpartition(":")[2]


def _streams(study: Study, name: str, group: Group) -> dict[str, dict[str, Any]]:
    """Base configs by the stem of their file."""
    paths = [path for pattern in group.streams for path in _files(study.folder, pattern)]
    if not paths:
        raise UserError(f"groups.{name} names no stream. Give configs of runs, such as streams = ['quick.toml'].")
    streams = {path.stem: read_toml(path) for path in paths}
    for path, values in zip(paths, streams.values(), strict=False):
        require_no_code(values, path, study.allowed)
    for stem in streams:
        require_plain_name(stem)
    return streams


def _files(folder: Path, pattern: str) -> list[Path]:
    if not any(sign in pattern for sign in "*?["):
        return [folder / pattern]
    if ".." in Path(pattern).parts or Path(pattern).is_absolute():
        raise UserError(f"A pattern of streams stays in the study's folder; got {pattern!r}.")
    if found := sorted(folder.glob(pattern)):
        return found
    raise UserError(f"There is no config file {folder / pattern}.")


def _tuned(study: Study, names: tuple[str, ...] | str) -> list[Settings]:
    """Methods' own settings from files or by the names of presets, the weakest first."""
    known = {**LEARNERS, **dict.fromkeys(study.allowed)}
    return [own_settings(name, known, study.folder) for name in ([names] if isinstance(names, str) else names)]


def _dimensions(group: Group, method: str) -> list[list[Choice]]:
    """What is combined for a method. A value is part of a run's name where there are several."""
    has_capacity = any(f.name == "capacity" for f in dataclasses.fields(method_named(method).Config))
    dimensions = [
        _values("data.tasks", "t", group.tasks),
        _values("learner.capacity", "c", group.capacities if has_capacity else ()),
        [Choice(name, settings) for name, settings in group.variants.items()] or [Choice("", {})],
    ]
    for name, values in flat(group.grid).items():
        dimensions.append(_values(name, f"{name.split('.')[-1]}-", values))
    return dimensions


def _values(name: str, short: str, values: Sequence[Any]) -> list[Choice]:
    if not values:
        return [Choice("", {})]
    many = len(values) > 1
    return [Choice(f"{short}{_as_word(value)}" if many else "", nested(name, value)) for value in values]


def _as_word(value: object) -> str:
    """A value as part of a file's name."""
    text = "-".join(map(str, value)) if isinstance(value, list | tuple) else str(value).lower()
    return "".join(sign if sign.isalnum() or sign in ".-+_" else "-" for sign in text)


def _is_like(job: Job, pattern: str) -> bool:
    return any(fnmatch(name, pattern) for name in (job.name, job.place, job.kind, f"{job.group}/{job.kind}"))


def _check_number(study: Study, seeds: Sequence[int]) -> None:
    """A grid of a few lines may stand for more runs than anybody can count."""
    for name, group in study.groups.items():
        methods = group.methods if isinstance(group.methods, tuple) else tuple(LEARNERS)
        scenarios = group.scenarios or ("til",)
        parts = [seeds or group.seeds or study.seeds, group.streams, scenarios, methods, group.tasks, group.capacities]
        n = math.prod(max(1, len(part)) for part in [*parts, group.variants, *flat(group.grid).values()])
        if n > MOST:
            raise UserError(f"groups.{name} stands for up to {n:,} runs; a group has {MOST:,} at most. Split it.")


def _check_names(jobs: Sequence[Job]) -> None:
    """Two runs of one name would overwrite each other."""
    seen: dict[str, Job] = {}
    for job in jobs:
        if job.place in seen:
            raise UserError(f"Two runs are called {job.place}. List every value once, or split the group.")
        seen[job.place] = job

"""A study as frozen dataclasses ⇄ TOML: named groups of runs, each a grid over a few base configs."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from snv.config import build, check_own, flat, require_no_code
from snv.errors import UserError, unknown
from snv.files import plain_toml
from snv.learners import LEARNERS, SCENARIOS, method_named
from snv.training import Scenario

PLAIN = re.compile(r"\w[\w.+=-]{0,99}")
Settings = Mapping[str, Any]
"""Settings of a run as a TOML file nests them."""


@dataclass(frozen=True)
class Group:
    """Runs that belong together: every combination of what is listed. What is left out is as the stream says."""

    streams: tuple[str, ...]  # configs of single runs, beside the study; * stands for many
    methods: tuple[str, ...] | Literal["all"] | None = None
    scenarios: tuple[Scenario, ...] | None = None
    without: tuple[str, ...] = ()  # METHOD-SCENARIO that other runs answer for
    tasks: tuple[int, ...] = ()  # numbers of tasks
    capacities: tuple[float, ...] = ()  # c, of methods that have one
    grid: Settings = field(default_factory=dict)  # lists of values of any other settings
    variants: Mapping[str, Settings] = field(default_factory=dict)  # settings that go together, by name
    seeds: tuple[int, ...] | None = None  # None: the study's
    settings: Settings = field(default_factory=dict)  # of every run
    tuned: tuple[str, ...] | str = ()  # files of methods' own settings, beside the study, or names of presets
    own: Settings = field(default_factory=dict)  # of a method, or of a method in a scenario

    def __post_init__(self) -> None:
        for method in self.methods if isinstance(self.methods, tuple) else ():
            method_named(method)
        known = [f"{method}-{scenario}" for method in LEARNERS for scenario in SCENARIOS]
        for pair in self.without:
            if pair not in known:
                raise unknown("method and scenario", pair, known)
        check_own(self.own)
        for name, values in flat(self.grid).items():
            if not isinstance(values, list) or not values:
                raise UserError(f"A grid lists the values of a setting, as in {name} = [1, 2]; got {values!r}.")

    def methods_in(self, stream: Settings) -> tuple[str, ...]:
        """Those asked for, or the one of the stream's own config."""
        return tuple(LEARNERS) if self.methods == "all" else self.methods or (stream.get("method", "sgd"),)


@dataclass(frozen=True)
class Study:
    """Named groups of runs, and what they have in common."""

    name: str
    folder: Path  # where the file stands: other files are named from here
    groups: Mapping[str, Group]
    title: str = ""
    seeds: tuple[int, ...] = (0,)
    settings: Settings = field(default_factory=dict)  # of every run
    tuned: tuple[str, ...] | str = ()
    own: Settings = field(default_factory=dict)
    allowed: tuple[str, ...] = ()  # FILE.py:CLASS of methods of one's own that the user named

    def __post_init__(self) -> None:
        for name, group in self.groups.items():
            for word in (name, *group.variants):
                require_plain_name(word)
        if not self.groups:
            raise UserError(f"{self.name} has no group of runs. Add one, such as [groups.first].")
        check_own(self.own)


def require_plain_name(name: str) -> None:
    """Groups and variants are parts of files' names, so they lead nowhere else."""
    if not PLAIN.fullmatch(name):
        raise UserError(
            f"{name!r} is part of a file's name: letters, digits and any of . + - _ = after the first, 100 at most."
        )


def load_study(path: Path, own_methods: Sequence[str] = ()) -> Study:
    """A study from its TOML file; unknown keys are answered with the nearest known ones.

    A method in a file of code is executed only if it is among ``own_methods``.
    """
    values = plain_toml(path)
    require_no_code(values, path, own_methods)
    tables = values.pop("groups", {})
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise UserError(f"{path}: groups are tables such as [groups.first].")
    known = [f.name for f in dataclasses.fields(Study) if f.name not in ("name", "folder", "allowed")]
    for key in values:
        if key not in known:
            raise unknown("key in a study", key, known)
    try:
        groups = {name: build(Group, table, f"groups.{name}") for name, table in tables.items()}
        study: Study = build(
            Study, {"name": path.stem, "folder": path.parent, "groups": groups, "allowed": tuple(own_methods), **values}
        )
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    return study

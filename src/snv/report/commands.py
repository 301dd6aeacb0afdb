"""The command that repeats a run, from its settings alone."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from snv.config import RunConfig, build, parse_setting, without_retired
from snv.errors import UserError
from snv.learners import is_own

ALWAYS = ("method", "scenario", "seed", "data.name", "data.tasks")
"""What a run is about, said even if it is the default."""


def command(stored: Mapping[str, Any], where: Path) -> str:
    """`snv run` with every setting that is not its default: on such a machine, the run again, bit for bit.

    Settings that this version has no more, or never had, are a `UserError` which says so.
    """
    if is_own(str(stored.get("method"))):
        raise UserError("The method is a file of somebody's own, which is not executed to make a page.")
    config: RunConfig = build(RunConfig, without_retired(stored, where))
    usual = dict(flat(RunConfig(config.method, config.scenario).as_dict()))
    said = [(name, value) for name, value in flat(config.as_dict()) if name in ALWAYS or value != usual[name]]
    return shlex.join(["snv", "run", *(f"{name}={written(name, value)}" for name, value in said)])


def flat(config: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """All settings by dotted name."""
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{above}{name}.")
        else:
            yield above + name, value


def written(name: str, value: Any) -> str:
    """A value as an override has it: TOML, or a word of its own."""
    if isinstance(value, str):
        return value if parse_setting(f"{name}={value}") == (name, value) else json.dumps(value)
    return "none" if value is None else json.dumps(value)

"""A directory holds one run: what may change when it goes on, and what may not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from snv.config import RunConfig, build, flat, without_retired
from snv.errors import UserError

FREE_TO_CHANGE = ("checkpoint_seconds", "keep", "data.dir", "data.workers")
"""Settings that do not change a result, so a run may be continued with others."""


def check_same(asked: RunConfig, stored: Mapping[str, Any], out: Path) -> None:
    """Refuse to continue a run with other settings: that would mix two."""
    if stored.get("method") != asked.method:  # before its settings are read: a method may be anybody's file
        raise _other(out, [f"method was {stored.get('method')!r} and is now {asked.method!r}"])
    known: RunConfig = build(RunConfig, without_retired(stored, out))  # what it does not say yet is as by default
    new, old = flat(asked.as_dict()), flat(known.as_dict())
    changed = [k for k in sorted(new.keys() | old.keys()) if new.get(k) != old.get(k) and k not in FREE_TO_CHANGE]
    if changed:
        raise _other(out, [f"{key} was {old.get(key)!r} and is now {new.get(key)!r}" for key in changed[:3]])


def check_marks(marks: Mapping[str, str], environment: Mapping[str, Any], out: Path) -> None:
    """Refuse to continue with a network, data or a method file that are not those the run began with."""
    for what, mark in marks.items():
        if environment.get(what) != mark:
            raise UserError(
                f"{out} holds a run that began with another {what}: its fingerprint was {environment.get(what)} and is "
                f"now {mark}. Give the same {what}, or choose another directory."
            )


def _other(out: Path, changes: list[str]) -> UserError:
    return UserError(
        f"{out} holds a run with other settings: {', '.join(changes)}. Choose another --out, or remove it."
    )

"""Which runs are the same run: a hash of every setting that can change a result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from snv.config import RunConfig, build, flat, without_retired
from snv.errors import UserError
from snv.learners import is_own
from snv.runs import FREE_TO_CHANGE

BESIDE = (*FREE_TO_CHANGE, "device", "threads")
"""Where and how fast a run was computed, and what stays on disk: no part of what was asked."""


def fingerprint(config: RunConfig) -> str:
    """Sixteen hexadecimal digits; two configs have the same ones if they ask for the same result."""
    return _hashed(config.as_dict())


def _hashed(settings: Mapping[str, Any]) -> str:
    asked = {name: value for name, value in flat(settings).items() if name not in BESIDE}
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]


def restored(stored: Mapping[str, Any], where: Path) -> RunConfig | None:
    """The config that a record or a run directory holds, also of an older version; None if no run of today is it.

    Note: None, too, if the method is somebody's own: reading a record that lies somewhere must not execute a file.
    """
    if "method" not in stored or is_own(stored["method"]):
        return None
    try:
        known: RunConfig = build(RunConfig, without_retired(stored, where))
    except UserError:
        return None
    return known


def fingerprint_of(stored: Mapping[str, Any], where: Path) -> str | None:
    """Of such a config; with a method of one's own, of the config as it was stored."""
    if is_own(stored.get("method", "")):
        return _hashed(stored)
    config = restored(stored, where)
    return None if config is None else fingerprint(config)

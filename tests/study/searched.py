"""A stream of digits that learns in a moment, for tests of searches."""

from __future__ import annotations

from snv.config import RunConfig, load_config

SMALL = ["data.classes=8", "data.tasks=4", "data.per_class=30", "network.name=mlp", "network.hidden=[16]", "threads=1"]


def small(*overrides: str) -> RunConfig:
    """Four tasks of two digits."""
    return load_config(None, [*SMALL, "train.epochs=4", *overrides])

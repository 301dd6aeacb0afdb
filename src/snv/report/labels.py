"""Short names of what was run in several ways: the usual one has none, others what sets them apart from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from snv.config import RunConfig
from snv.learners import LEARNERS
from snv.report.commands import flat
from snv.report.settings import Settings, differing, named
from snv.report.variants import Variant

Found = Mapping[str, Mapping[str, Sequence[Variant]]]
"""Variants by scenario and method."""


def labels(found: Found) -> dict[int, str]:
    """A name for every variant, by its identity: one variant, one name, in whatever scenario it was run.

    A method that was run in one way only, in each scenario, needs no more than its own.
    """
    many: dict[str, list[Variant]] = {}
    for by_method in found.values():
        for method, variants in by_method.items():
            many.setdefault(method, []).extend(variants)
    named_apart = {method for by_method in found.values() for method, several in by_method.items() if len(several) > 1}
    told: dict[int, str] = {}
    for method, variants in many.items():
        words = apart([v.settings for v in variants], usual(method)) if method in named_apart else [""] * len(variants)
        told |= {id(v): f"{method} ({word})" if word else method for v, word in zip(variants, words, strict=True)}
    return told


def apart(many: Sequence[Settings], defaults: Settings) -> list[str]:
    """What sets each apart from what is usual: the default where one of them has it, else what most of them have."""
    names = differing(many)
    base = {name: _base([one[name] for one in many], defaults.get(name, ...)) for name in names}
    short = {name: name.split(".")[-1] for name in names}
    if len(set(short.values())) < len(short):
        short = {name: name for name in names}
    return [named({short[n]: one[n] for n in names}, [short[n] for n in names if one[n] != base[n]]) for one in many]


def _base(values: Sequence[Any], default: Any) -> Any:
    return default if default in values else max(values, key=values.count)


def usual(method: str) -> Settings:
    """What a method does today unless it is told otherwise; settings it has no more as they always are now."""
    if method not in LEARNERS:
        return {}
    card = LEARNERS[method].card
    retired = {f"learner.{name}": value for name, value in card.retired.items()}
    return retired | dict(flat(RunConfig(method, card.scenarios[0]).as_dict()))

"""What a search goes through: values of settings from a method's card, without those it could not choose."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from snv.config import RunConfig, changed, flat
from snv.errors import UserError, unknown
from snv.learners import method_named
from snv.seeding import generator

PROTOCOLS = ("first-task", "halves")
"""On what settings are chosen: the first task alone, or the tasks with the first half of the classes."""

Settings = dict[str, Any]
"""Values of settings by their dotted names."""

STILL = "does nothing while the first task is learned, so images of that task cannot choose it"


@dataclass(frozen=True)
class Space:
    """Values to try of each setting; their combinations are the grid."""

    values: Mapping[str, tuple[Any, ...]]
    left_out: Mapping[str, str] = field(default_factory=dict)  # what of the method's grid cannot be chosen, and why

    @property
    def size(self) -> int:
        """How many combinations there are."""
        return math.prod(map(len, self.values.values()))

    def grid(self) -> list[Settings]:
        """Every combination, the last setting changing fastest."""
        return [dict(zip(self.values, chosen, strict=True)) for chosen in itertools.product(*self.values.values())]


def space_of(config: RunConfig, protocol: str, own: Mapping[str, Sequence[Any]] | None = None) -> Space:
    """What is searched for this run: ``own`` values, or those of the method's card, as far as they can be chosen."""
    if protocol not in PROTOCOLS:
        raise unknown("protocol", protocol, PROTOCOLS)
    card = method_named(config.method).card
    wanted = {name: tuple(values) for name, values in (own if own is not None else card.space).items()}
    idle = dict(card.idle) | (dict.fromkeys(card.idle_first, STILL) if protocol == "first-task" else {})
    refused = {name: reason for name, values in wanted.items() if (reason := _refusal(config, name, values))}
    left_out = {name: reason for name, reason in idle.items() if name in wanted} | refused
    if own is not None and left_out:
        name, reason = next(iter(left_out.items()))
        advice = " Leave it out, or use --protocol halves." if reason == STILL else " Leave it out."
        raise UserError(f"{name} cannot be searched: {reason.rstrip('.')}.{advice}")
    space = Space({name: values for name, values in wanted.items() if name not in left_out}, left_out)
    if not space.values:
        raise UserError(
            f"There is nothing to choose for {config.method}: the grid on its card names no setting that counts here. "
            "Name values yourself, such as --space train.lr=[0.001,0.01]."
        )
    return space


def _refusal(config: RunConfig, name: str, values: Sequence[Any]) -> str:
    """Why this run cannot have such a setting, if it cannot."""
    if name.split(".")[0] not in ("train", "learner", "network"):
        return "it is no setting of training, of the method or of the network"
    if not values:
        return "no value is given"
    try:
        for value in values:
            changed(config, {name: value})
    except UserError as error:
        return str(error)
    return ""


def current(config: RunConfig, space: Space) -> Settings:
    """The values that the run has as it is."""
    known = flat(config.as_dict())
    return {name: known[name] for name in space.values}


def candidates(space: Space, first: Settings, n: int | None, seed: int) -> list[Settings]:
    """``first``, then the rest of the grid in its order; of a larger grid than ``n`` a random part, drawn by seed."""
    rest = [settings for settings in space.grid() if settings != first]
    if n is not None and n - 1 < len(rest):
        drawn = torch.randperm(len(rest), generator=generator(seed, "trials"))[: max(0, n - 1)]
        rest = [rest[i] for i in sorted(drawn.tolist())]
    return [first, *rest]

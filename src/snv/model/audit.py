"""Every tensor of a model with its role: proof that no training picture is kept."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import NamedTuple

from torch import Tensor

from snv.files import State

ROLES: tuple[tuple[str, str], ...] = (
    ("body", "weights of the shared network"),
    ("frozen", "which neurons are frozen"),
    ("head", "weights of the task's head"),
    ("subnetwork.mask", "which neurons the task uses"),
    ("subnetwork.norm", "the task's norm layers"),
    ("values", "Shapley value of every neuron for the task"),
    ("statistics.energy", "mean and deviation of its energy"),
    ("statistics.means", "mean features of its classes in a subnetwork"),
    ("statistics.covariance", "covariance of features within its classes"),
    ("common.head", "the task's head in the common space"),
    ("common.weights", "weights of its two opinions"),
    ("common.open_weights", "weights of its two opinions, task unknown"),
    ("common.classes", "counts, sums and products of features in the common space"),
    ("space.file", "the pretrained network, as it was given"),
    ("space", "how the common space turns pictures into features"),
    ("probe", "its answers to made-up probe images"),
)


class Audited(NamedTuple):
    """One tensor of a model."""

    part: str  # the network, or a task
    tensor: str  # its name in the part
    shape: tuple[int, ...]
    bytes: int
    role: str


def audited(states: dict[str, State]) -> list[Audited]:
    """Every tensor of these states."""
    return [
        Audited(part, name, tuple(x.shape), x.nbytes, _role(name))
        for part, state in states.items()
        for name, x in _tensors(state)
    ]


def _tensors(state: State, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """All tensors of a state, with their place in it."""
    if isinstance(state, Tensor):
        yield name, state
    elif isinstance(state, dict):
        for key, value in state.items():
            yield from _tensors(value, f"{name}.{key}" if name else key)
    elif isinstance(state, list):
        for i, value in enumerate(state):
            yield from _tensors(value, f"{name}[{i}]")


@functools.cache
def _role(name: str) -> str:
    return next(role for start, role in ROLES if name.startswith(start))

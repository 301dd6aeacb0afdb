"""Which image belongs to which task and split: pure functions of labels and a seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from snv.errors import UserError
from snv.seeding import derived_seed

SHARES = (0.7, 0.1, 0.2)
"""Train, validation, test, per class (section 4 of the paper)."""


class Indices(NamedTuple):
    """Positions in the pooled dataset, ascending."""

    train: NDArray[np.int64]
    val: NDArray[np.int64]
    test: NDArray[np.int64]


def class_order(n_classes: int, seed: int) -> list[int]:
    """The order in which classes arrive."""
    order: list[int] = np.random.default_rng(derived_seed(seed, "class order")).permutation(n_classes).tolist()
    return order


def task_sizes(n_classes: int, tasks: int | Sequence[int]) -> list[int]:
    """How many classes each task brings: ``tasks`` as even as possible, or an explicit list such as (50, 25, 25)."""
    if isinstance(tasks, int):
        if tasks < 1:
            raise UserError(f"A stream has at least one task; got tasks = {tasks}.")
        if tasks > n_classes:
            raise UserError(
                f"{tasks} tasks need at least {tasks} classes, but the data have {n_classes}. "
                f"Ask for at most {n_classes} tasks."
            )
        few, extra = divmod(n_classes, tasks)
        return [few + 1] * extra + [few] * (tasks - extra)
    sizes = list(tasks)
    if not sizes or min(sizes) < 1 or sum(sizes) > n_classes:
        raise UserError(
            f"A task list gives the number of classes of each task, at least 1 each and at most {n_classes} in all; "
            f"got {sizes}."
        )
    return sizes


def split_indices(
    labels: NDArray[np.int64],
    seed: int,
    class_names: Sequence[str] = (),
    shares: tuple[float, float, float] = SHARES,
    per_class: int | None = None,
) -> Indices:
    """Train, validation and test positions, split per class; ``per_class`` keeps only that many images of each.

    Every class is drawn with its own generator, named after it, so adding a class never moves the images of another.
    """
    if per_class is not None and per_class < 3:
        raise UserError(
            f"per_class = {per_class} leaves no image for training, validation or test. Keep at least 3 of each class."
        )
    parts: list[list[NDArray[np.int64]]] = [[], [], []]
    for c in range(int(labels.max()) + 1 if len(labels) else 0):
        name = class_names[c] if c < len(class_names) else str(c)
        members = np.flatnonzero(labels == c)
        members = np.random.default_rng(derived_seed(seed, "split", name)).permutation(members)[:per_class]
        n_val = max(1, round(shares[1] * len(members)))
        n_test = max(1, round(shares[2] * len(members)))
        if len(members) < 3:
            raise UserError(
                f"Class {name!r} has {len(members)} image{'' if len(members) == 1 else 's'}; training, validation and "
                "test need at least one each. Add images, or remove the class."
            )
        parts[0].append(members[n_val + n_test :])
        parts[1].append(members[:n_val])
        parts[2].append(members[n_val : n_val + n_test])
    joined = [np.sort(np.concatenate(part)) if part else np.empty(0, np.int64) for part in parts]
    return Indices(*joined)

"""Which image belongs to which task and split: pure functions of labels and a seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from snv.errors import UserError, unknown
from snv.seeding import derived_seed

SHARES = (0.7, 0.1, 0.2)
"""Train, validation, test, per class (section 4 of the paper)."""


class Indices(NamedTuple):
    """Positions in the pooled dataset, ascending."""

    train: NDArray[np.int64]
    val: NDArray[np.int64]
    test: NDArray[np.int64]


Parts = Literal["70/10/20", "official"]
"""How images are divided: by our shares, or with the data set's own test images."""

Order = Sequence[str | int] | Sequence[Sequence[str | int]]
"""Classes by name or index: all in one row, or those of each task."""


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


def chosen_classes(order: Order, names: Sequence[str]) -> tuple[list[int], list[int] | None]:
    """The classes an order names, in a row, and how many each task has if it says so."""
    parts = [part for part in order if not isinstance(part, str | int)]
    single = [part for part in order if isinstance(part, str | int)]
    if parts and single:
        raise UserError(f"data.order is one list of classes, or a list of classes for each task; got {list(order)}.")
    rows = [[_class_index(c, names) for c in part] for part in parts or [single]]
    row = [c for part in rows for c in part]
    twice = next((c for c in row if row.count(c) > 1), None)
    if not all(rows) or twice is not None:
        what = "has a task without classes" if twice is None else f"names the class {names[twice]!r} twice"
        raise UserError(f"data.order {what}. Give every class once, and every task at least one.")
    return row, [len(part) for part in rows] if parts else None


def _class_index(c: str | int, names: Sequence[str]) -> int:
    if isinstance(c, str) and c not in names:
        raise unknown("class", c, names)
    if isinstance(c, int) and not 0 <= c < len(names):
        raise UserError(f"data.order names class {c}; the data have the classes 0 to {len(names) - 1}.")
    return names.index(c) if isinstance(c, str) else c


def official_indices(
    labels: NDArray[np.int64], n_test: int, seed: int, class_names: Sequence[str] = (), per_class: int | None = None
) -> Indices:
    """The last ``n_test`` images are for testing; a tenth of all others, per class, is for validation.

    ``per_class`` keeps only that many images of each class to learn from, and all test images.
    """
    if per_class is not None and per_class < 2:
        raise UserError(f"per_class = {per_class} leaves no image for training or validation. Keep at least 2.")
    test = np.arange(len(labels) - n_test, len(labels))
    train, val = [], []
    for c in range(int(labels.max()) + 1):
        name = class_names[c] if c < len(class_names) else str(c)
        members = _drawn(np.flatnonzero(labels[: len(labels) - n_test] == c), seed, name)[:per_class]
        if len(members) < 2 or not (labels[test] == c).any():
            raise UserError(
                f"Class {name!r} has {len(members)} official training images and {int((labels[test] == c).sum())} test "
                "images; 2 and 1 are the least. Use data.split=70/10/20."
            )
        n_val = max(1, round(SHARES[1] * len(members)))
        val.append(members[:n_val])
        train.append(members[n_val:])
    return Indices(np.sort(np.concatenate(train)), np.sort(np.concatenate(val)), test)


def _drawn(members: NDArray[np.int64], seed: int, name: str) -> NDArray[np.int64]:
    """The images of one class in an order that no other class changes."""
    return np.random.default_rng(derived_seed(seed, "split", name)).permutation(members)


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
        members = _drawn(np.flatnonzero(labels == c), seed, name)[:per_class]
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

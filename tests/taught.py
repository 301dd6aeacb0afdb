"""What tests ask of a model that has learned, and how they change it."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch

from drawn import BIRDS, FISH, TREES, draw
from snv import Model
from snv.files import cloned

NAMES = {"birds": BIRDS, "fish": FISH, "trees": TREES}
QUERIES = [draw(name, 100 + i) for i in range(3) for names in NAMES.values() for name in names]
QUICK = 2  # epochs
BOTH = ("class names", "name", "picture format")
"""What answers are read with, whether the task is known or not."""


def answers(model: Model, task: str | None) -> list[tuple[tuple[str, str, float], ...]]:
    return [prediction.best for prediction in model.predict(QUERIES, task, top=9)]


def all_unchanged(model: Model) -> bool:
    return all(verdict.unchanged and "bit-identical" in verdict.told for verdict in model.verify())


def everything(model: Model) -> object:
    """All that a failure must not touch, in memory."""
    knowledge = model.knowledge
    parts = model.specialists.state(), knowledge.values, knowledge.probes, knowledge.tasks, knowledge.next_uid
    return cloned(parts)


def same(a: object, b: object) -> bool:
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return a == b


def tampered_with(model: Model, what: str, change) -> None:
    """One number or name that answers without the task are computed from, changed where it lives."""
    t, tensors = 1, evidence(model)
    if what in tensors:
        change(tensors[what])
    elif what == "class names":
        model.tasks[t] = dataclasses.replace(model.tasks[t], classes=model.tasks[t].classes[::-1])
    elif what == "name":
        model.tasks[t] = dataclasses.replace(model.tasks[t], name="fishes")
    elif what == "picture format":
        model.knowledge.preprocess = dataclasses.replace(model.knowledge.preprocess, std=(0.5, 0.5, 0.51))
    else:
        field = what.replace(" ", "_")
        found = torch.tensor(getattr(model.tasks[t], field), dtype=torch.float64)
        change(found)
        model.tasks[t] = dataclasses.replace(model.tasks[t], **{field: found.item()})


def evidence(model: Model, t: int = 1) -> dict[str, torch.Tensor]:
    """What task t brings to open answers, named as `verify` names it."""
    specialists = model.specialists
    if specialists.common is not None:
        part = specialists.common.tasks[t]
        return {"class sums": part.classes.sums, "weights of opinions": part.open_weights}
    kept = specialists.statistics[t]
    means = {f"class means in task {s + 1}": mean for s, mean in enumerate(kept.means)}
    return {"energy": kept.energy, "covariance": kept.covariance, **means}


def one_ulp(x: torch.Tensor) -> None:
    flat = x.view(-1)
    flat[-1] = torch.nextafter(flat[-1], flat[-1] + 1)


def tensors(state: object) -> list[torch.Tensor]:
    if isinstance(state, torch.Tensor):
        return [state]
    inside = state.values() if isinstance(state, dict) else state if isinstance(state, list) else []
    return [x for part in inside for x in tensors(part)]


def images_and_labels(names: tuple[str, ...], each: int, start: int = 0) -> tuple[np.ndarray, np.ndarray]:
    images = [np.asarray(draw(name, start + i, (16, 16))) for name in names for i in range(each)]
    return np.stack(images), np.repeat(names, each)

"""Records for tests of tables, made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from snv.runs import Record, Result


def a_result(
    method: str = "sgd",
    scenario: str = "til",
    seed: int = 0,
    accuracy: list[list[float]] | None = None,
    known: list[list[float]] | None = None,
    name: str | None = None,
    data: dict[str, Any] | None = None,
    **learner: Any,
) -> Result:
    """A finished run of two tasks, or of as many as ``accuracy`` has rows."""
    matrix = np.array(accuracy or [[90.0, 50.0], [70.0, 80.0]])
    config = {
        "method": method,
        "scenario": scenario,
        "seed": seed,
        "data": {"name": "cifar100", "tasks": 10, "classes": None} | (data or {}),
        "network": {"name": "resnet18", "width": 16},
        "train": {"epochs": 20, "lr": 0.004},
        "learner": learner,
        "threads": 1,
    }
    record = Record.blank(config, len(matrix))
    record.accuracy[:], record.untrained[:] = matrix, 10.0
    if known is not None:
        record.known[:] = np.array(known)
    record.tasks_done, record.status, record.capacity = len(matrix), "finished", {"parameters": 0.5, "neurons": 0.5}
    record.cost = {"seconds": {"train": 60.0, "value": 6.0, "evaluate": 5.0}, "macs": {"train": 3e12, "value": 1e12}}
    return Result(Path("results") / (name or f"{method}-{scenario}-seed{seed}.json"), record)


def with_final(*final: float) -> list[list[float]]:
    """An accuracy matrix whose last row is given and which forgets nothing."""
    return [[final[j] if j <= i else 10.0 for j in range(len(final))] for i in range(len(final))]

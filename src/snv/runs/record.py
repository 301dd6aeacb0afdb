"""What is known of a run: the accuracy matrix and what follows from it. Plain JSON, readable without the data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from snv.metrics import Matrix, summary
from snv.runs.details import Details
from snv.shapley import Account
from snv.training import Fault


@dataclass
class Record:
    """One run's results so far; rows of ``accuracy`` are filled task after task, by real evaluation."""

    config: dict[str, Any]
    accuracy: Matrix  # percent, nan where not evaluated
    untrained: Matrix  # accuracy of the untrained network on each task
    known: Matrix  # of a CIL run: accuracy if the task were known, like ``accuracy`` otherwise
    status: str = "unfinished"
    tasks_done: int = 0
    capacity: dict[str, float] | None = None
    bytes_kept: list[int] = field(default_factory=list)  # beyond the network, at the end of each task
    valuations: list[Account | None] = field(default_factory=list)  # per task, of methods that value neurons
    warnings: list[Fault] = field(default_factory=list)  # what went wrong in training, in the order it was noticed
    lowered: list[dict[str, Any]] = field(default_factory=list)  # steps made in parts, from which task on
    details: Details | None = None  # what classes were taken for at the newest evaluation
    cost: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def blank(cls, config: dict[str, Any], n_tasks: int) -> Record:
        square = (n_tasks, n_tasks)
        return cls(config, np.full(square, np.nan), np.full(n_tasks, np.nan), np.full(square, np.nan))

    @property
    def n_tasks(self) -> int:
        return len(self.untrained)

    @property
    def metrics(self) -> dict[str, float | None]:
        """Of the tasks learned so far."""
        n = self.tasks_done
        parameters = self.capacity["parameters"] if self.capacity else None
        found = summary(self.accuracy[:n, :n], self.untrained[:n], parameters)
        return found | ({"ACC known": float(self.known[n - 1, :n].mean())} if self._has_known() else {})

    def _has_known(self) -> bool:
        """Whether accuracies with the task known stand beside those without."""
        n = self.tasks_done
        return n > 0 and not np.isnan(self.known[n - 1, :n]).any()

    def results(self) -> dict[str, Any]:
        """What a repetition of the run must reproduce bit for bit."""
        return {
            "tasks_done": self.tasks_done,
            "accuracy": _with_none(self.accuracy),
            "untrained": _with_none(self.untrained),
            **({"known": _with_none(self.known)} if self._has_known() else {}),
            "capacity": self.capacity,
            "bytes_kept": self.bytes_kept,
            "valuations": self.valuations,
            **({"warnings": self.warnings} if self.warnings else {}),
            **({"lowered": self.lowered} if self.lowered else {}),
            **({"details": self.details.as_json()} if self.details is not None else {}),
        }

    def load_results(self, results: dict[str, Any]) -> None:
        self.tasks_done = results["tasks_done"]
        self.accuracy = np.array(results["accuracy"], dtype=np.float64)  # None becomes nan
        self.untrained = np.array(results["untrained"], dtype=np.float64)
        self.known = np.array(results.get("known", np.full_like(self.accuracy, np.nan)), dtype=np.float64)
        self.capacity = results["capacity"]
        self.bytes_kept = list(results.get("bytes_kept", []))  # older records have none
        self.valuations = results.get("valuations", [])  # older records have none
        self.warnings = list(results.get("warnings", []))
        self.lowered = list(results.get("lowered", []))
        self.details = Details.from_json(results["details"]) if "details" in results else None  # nor these

    def as_json(self) -> dict[str, Any]:
        """One object for machines."""
        return {
            "method": self.config["method"],
            "scenario": self.config["scenario"],
            "data": self.config["data"]["name"],
            "tasks": self.n_tasks,
            "seed": self.config["seed"],
            "status": self.status,
            **self.results(),
            "metrics": self.metrics,
            "cost": self.cost,
            "config": self.config,
        }


def _with_none(array: Matrix) -> Any:
    return [_with_none(row) for row in array] if array.ndim > 1 else [None if np.isnan(x) else float(x) for x in array]

"""What can be read off a record, by name: numbers of the accuracy matrix in either scenario, and costs."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from snv.learners import LEARNERS
from snv.metrics import Matrix, summary
from snv.runs import Result

SCENARIOS = ("til", "cil")


@dataclass(frozen=True)
class Measure:
    """A number of a run, how it is written and which is better."""

    heading: str
    of: Callable[[Result], float | None]
    digits: int = 2
    better: Literal["higher", "lower", ""] = ""


def answers_for(result: Result, scenario: str) -> bool:
    """Whether a run has accuracies in a scenario: its own, or TIL too if its method trains alike in both."""
    if result.scenario == scenario:
        return True
    alike = result.method in LEARNERS and LEARNERS[result.method].card.alike
    return scenario == "til" and alike and not np.isnan(_done(result.record.known, result)[-1:]).any()


def accuracies(result: Result, scenario: str) -> Matrix:
    """The accuracy matrix in a scenario, of the tasks learned."""
    record = result.record
    return _done(record.accuracy if result.scenario == scenario else record.known, result)


def _done(matrix: Matrix, result: Result) -> Matrix:
    n = result.record.tasks_done
    return matrix[:n, :n]


def metric(result: Result, name: str, scenario: str) -> float | None:
    """ACC, AvgAcc, BWT, FWT, forgetting or PS in a scenario, in percent and points; None where it is not defined."""
    untrained = result.record.untrained[: result.record.tasks_done]
    return summary(accuracies(result, scenario), untrained, None)[name]


def _capacity(result: Result) -> float | None:
    return result.record.capacity["parameters"] if result.record.capacity else None


def _kept(result: Result) -> float | None:
    kept = result.record.bytes_kept
    return kept[-1] / 2**20 if kept else None


def _latency(batch: str) -> Callable[[Result], float | None]:
    return lambda result: result.record.cost.get("latency_ms", {}).get(batch)


def seconds(result: Result, *phases: str) -> float | None:
    """Of the phases named, or of all."""
    spent = result.record.cost.get("seconds", {})
    return sum(spent.get(phase, 0.0) for phase in phases or spent) if spent else None


def valuation_seconds(result: Result) -> float | None:
    """Mean of a task's valuation, timed alone where the record has it."""
    if found := result.record.cost.get("valuation_seconds"):
        return statistics.fmean(found)
    return None if (spent := seconds(result, "value")) is None else spent / result.record.n_tasks


def _peak(result: Result) -> float | None:
    peak = result.record.cost.get("peak_bytes")
    return peak / 2**30 if peak else None


def _operations(result: Result) -> float | None:
    """In 10¹², forward and backward, of everything but evaluation."""
    macs = result.record.cost.get("macs", {})
    return sum(n for phase, n in macs.items() if phase != "evaluate") / 1e12 if macs else None


def _learning(result: Result) -> float | None:
    spent = result.record.cost.get("seconds", {})
    return sum(s for phase, s in spent.items() if phase != "evaluate") / 60 if spent else None


MEASURES: dict[str, Measure] = {
    "CAP": Measure("CAP", _capacity),
    "kept": Measure("MiB kept", _kept, better="lower"),
    "latency 1": Measure("ms, batch 1", _latency("1"), better="lower"),
    "latency 64": Measure("ms, batch 64", _latency("64"), better="lower"),
    "seconds": Measure("seconds", seconds, 0),
    "valuation": Measure("valuation, s", lambda result: seconds(result, "value"), 1),
    "learning": Measure("minutes", _learning, 1, "lower"),
    "peak": Measure("GiB", _peak, better="lower"),
    "operations": Measure("TMACs", _operations, 2, "lower"),
}

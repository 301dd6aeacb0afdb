"""All that is behind the numbers of one run: command, settings, machine, costs, accuracies."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from snv.errors import UserError
from snv.metrics import Matrix
from snv.report.cells import number_text
from snv.report.commands import command, flat, written
from snv.report.measures import SCENARIOS, accuracies, answers_for
from snv.runs import Result

Triangle = tuple[tuple[float | None, ...], ...]
"""Accuracies on the tasks learned so far: one number after the first task, two after the second."""
Facts = tuple[tuple[str, str], ...]
"""Names and values, as they are shown."""


@dataclass(frozen=True)
class RunData:
    """One run, for a page."""

    place: str
    method: str
    scenario: str
    seed: int
    stream: int
    status: str
    matrices: dict[str, Triangle]  # by scenario
    facts: Facts
    command: str | None  # repeats it; None: this version cannot
    why_not: str
    typed: str | None  # what was typed at the time, if that was kept
    config: Facts
    environment: Facts | None  # None: not kept with the record
    neurons: int | None  # place in the list of tables of neurons


def run_data(result: Result, stream: int, neurons: int | None) -> RunData:
    """The run as the page tells it."""
    record, environment = result.record, result.environment()
    again, why_not = _again(result)
    shown = [scenario for scenario in SCENARIOS if record.tasks_done and answers_for(result, scenario)]
    return RunData(
        str(result.path),
        result.method,
        result.scenario,
        result.seed,
        stream,
        f"{record.status}, {record.tasks_done} of {record.n_tasks} tasks",
        {scenario: triangle(accuracies(result, scenario)) for scenario in shown},
        tuple(_facts(result)),
        again,
        why_not,
        _typed(environment),
        _lines(record.config),
        None if environment is None else _lines(environment),
        neurons,
    )


def triangle(accuracy: Matrix) -> Triangle:
    """What is known after each task of the tasks learned by then, to three digits."""
    return tuple(tuple(known(x) for x in row[: i + 1]) for i, row in enumerate(accuracy))


def known(x: float) -> float | None:
    """To three digits; None for what was not measured."""
    return None if math.isnan(x) else round(float(x), 3)


def _again(result: Result) -> tuple[str | None, str]:
    """The command that repeats the run, or why this version has none."""
    try:
        return command(result.record.config, result.path), ""
    except UserError as error:
        return None, str(error)


def _typed(environment: Mapping[str, Any] | None) -> str | None:
    words = (environment or {}).get("command")
    return shlex.join(map(str, words)) if isinstance(words, list) else None


def _lines(values: Mapping[str, Any]) -> Facts:
    return tuple((name, written(name, value)) for name, value in flat(values) if name != "command")


def _facts(result: Result) -> Iterator[tuple[str, str]]:
    """Metrics and costs in a person's units."""
    record, cost = result.record, result.record.cost
    for name, value in record.metrics.items():
        if value is not None:
            yield name, number_text(value, 2)
    for what, share in (record.capacity or {}).items():
        yield f"{what} in use", f"{100 * share:.1f} %"
    if record.bytes_kept:
        yield "kept beyond the network", f"{record.bytes_kept[-1] / 2**20:,.2f} MiB"
    if "bytes_on_disk" in cost:
        yield "on disk", f"{cost['bytes_on_disk'] / 2**20:,.2f} MiB"
    if "parameters" in cost:
        yield "parameters", f"{cost['parameters']:,}"
    for batch, ms in cost.get("latency_ms", {}).items():
        yield f"per image, batch {batch}", f"{ms:.2f} ms"
    if "peak_bytes" in cost:
        yield "peak memory", f"{cost['peak_bytes'] / 2**30:.2f} GiB"
    if "computed" in cost:
        yield "computed", ", ".join(f"{name} {value}" for name, value in cost["computed"].items())
    yield from _valuations(result)
    for fault in record.warnings:
        yield "warning", fault["text"]


def _valuations(result: Result) -> Iterator[tuple[str, str]]:
    """What the estimator of values said of itself."""
    found = [account for account in result.record.valuations if account is not None]
    for key in ("estimator", "stopped", "certificate"):
        if words := dict.fromkeys(str(account[key]) for account in found):
            yield key, "; ".join(words)

"""Results without runs: accuracies drawn at random, and tables of neurons."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from snv.runs import NeuronTable, Record, Result


def a_record(method: str = "sgd", scenario: str = "til", seed: int = 0, tasks: int = 4, **learner: Any) -> Record:
    """Of a finished run."""
    config = {
        "method": method,
        "scenario": scenario,
        "seed": seed,
        "data": {"name": "digits", "tasks": tasks, "classes": None},
        "network": {"name": "mlp"},
        "train": {"epochs": 1},
        "learner": learner,
    }
    record = Record.blank(config, tasks)
    rng = np.random.default_rng([seed, len(method), tasks])
    record.accuracy[:] = np.where(np.tri(tasks, tasks, 1) > 0, rng.uniform(40, 100, (tasks, tasks)), np.nan)
    record.untrained[:] = 50.0
    record.tasks_done, record.status = tasks, "finished"
    record.capacity = {"parameters": 0.5, "neurons": 0.75}
    record.bytes_kept = [2**20 * (t + 1) for t in range(tasks)]
    record.cost = {
        "seconds": {"train": 60.0 + seed, "consolidate": 30.0, "value": 6.0, "evaluate": 12.0, "nap": 3.0},
        "macs": {"train": 3e12, "value": 1e12, "evaluate": 5e11},
        "peak_bytes": 2**30,
        "parameters": 1000,
        "latency_ms": {"1": 1.0},
    }
    return record


def a_result(folder: Path, method: str = "sgd", scenario: str = "til", seed: int = 0, **others: Any) -> Result:
    """A record and where it might be kept."""
    words = "-".join(f"{value}" for value in others.values())
    path = folder / f"{method}-{scenario}{words and '-' + words}-seed{seed}.json"
    return Result(path, a_record(method, scenario, seed, **others))


def kept(result: Result) -> Result:
    """The same, written to its file."""
    result.path.parent.mkdir(parents=True, exist_ok=True)
    result.path.write_text(json.dumps(result.record.as_json()), encoding="utf-8")
    return result


def a_table(tasks: int = 4, sizes: tuple[int, ...] = (5, 8, 3), seed: int = 0) -> NeuronTable:
    """Every task has a neuron of each layer at least, reuses some and leaves some free."""
    rng, n = np.random.default_rng(seed), sum(sizes)
    masks = rng.random((tasks, n)) < 0.3
    masks[:, np.cumsum((0, *sizes[:-1]))] = True
    masks[:, -1] = False
    values = rng.normal(0.1, 0.2, (tasks, n)).astype(np.float32)
    return NeuronTable(tuple(f"body.fc{i}" for i in range(len(sizes))), sizes, values, masks)


def with_table(result: Result, table: NeuronTable | None = None) -> Result:
    """The result, kept with a table of neurons beside it."""
    (table or a_table(result.record.n_tasks)).save(result.path.with_suffix(".npz"))
    return kept(result)

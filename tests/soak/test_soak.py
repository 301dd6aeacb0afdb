"""Long use leaves nothing behind: memory stays flat, and no hook, thread, open file or process is left over."""

from __future__ import annotations

import gc
import itertools
import json
import os
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from snv import Model
from snv.config import load_config
from snv.runs.run import run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="what a process holds is read from /proc")

MEBIBYTE = 2**20
EVENTS = [name for name in vars(torch.nn.modules.module) if name.startswith("_global_") and name.endswith("_hooks")]


def resident() -> int:
    """Bytes in memory, once what nobody needs is given back."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def hooks() -> int:
    """On modules that are alive, and on all modules at once."""
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    modules = [x for x in gc.get_objects() if issubclass(type(x), torch.nn.Module)]
    on_all = sum(len(getattr(torch.nn.modules.module, event)) for event in EVENTS)
    return on_all + sum(len(getattr(module, kind, ())) for module in modules for kind in kinds)


def held() -> dict[str, int]:
    """What would be a leak if it grew."""
    gc.collect()
    threads = list(Path("/proc/self/task").iterdir())
    children = [(thread / "children").read_text() for thread in threads]
    return {
        "hooks": hooks(),
        "threads": threading.active_count(),
        "system threads": len(threads),
        "open files": len(list(Path("/proc/self/fd").iterdir())),
        "processes": len(" ".join(children).split()),
    }


def a_stream(n_tasks: int, out: Path) -> list[int]:
    """A run of so many tasks; the memory in use at the beginning of each."""
    memory: list[int] = []

    def watch(what: str, done: float, total: float) -> None:
        if what.startswith(f"task {len(memory) + 1} of {n_tasks}"):
            memory.append(resident())

    settings = [
        "data.name=permuted-digits",
        f"data.tasks={n_tasks}",
        "data.classes=2",
        "data.per_class=6",
        "method=snv",
    ]
    settings += ["train.epochs=1", "network.name=mlp", "network.hidden=[8]", "learner.capacity=0.01", "keep=last"]
    run(load_config(None, [*settings, "threads=1"]), out, watch)
    return memory


def predictions(model: Model, n: int) -> list[int]:
    """Of one picture after the other; the memory in use after every twentieth part of them."""
    rng, memory = np.random.default_rng(0), []
    pictures = [rng.integers(0, 256, (16, 16, 3), dtype=np.uint8) for _ in range(20)]
    for i, picture in zip(range(n), itertools.cycle(pictures), strict=False):
        (answer,) = model.predict(picture)
        assert answer.label is not None
        if (i + 1) % (n // 20) == 0:
            memory.append(resident())
    return memory


def growth(memory: list[int]) -> float:
    """MiB between the middle and the end, each as the least of a fifth of the readings."""
    n, fifth = len(memory), max(1, len(memory) // 5)
    return (min(memory[n - fifth :]) - min(memory[n // 2 : n // 2 + fifth])) / MEBIBYTE


def told(name: str, n: int, memory: list[int], before: dict[str, int], after: dict[str, int]) -> None:
    """The figures, for whoever runs this with -s."""
    figures = {"n": n, "growth_mib": round(growth(memory), 2), "end_mib": round(memory[-1] / MEBIBYTE, 1)}
    sys.stdout.write(json.dumps({name: figures | {"before": before, "after": after}}) + "\n")


@pytest.mark.parametrize("n_tasks", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_a_stream_of_tasks_leaves_nothing_behind(n_tasks, tmp_path):
    a_stream(2, tmp_path / "warm")
    before = held()
    memory = a_stream(n_tasks, tmp_path / "run")
    assert len(memory) == n_tasks
    told("tasks", n_tasks, memory, before, held())
    assert held() == before
    assert growth(memory) < 4


@pytest.mark.parametrize("n", [200, pytest.param(2000, marks=pytest.mark.slow)])
def test_a_loop_of_predictions_leaves_nothing_behind(n, taught):
    model = Model.open(taught)
    predictions(model, 40)
    before = held()
    memory = predictions(model, n)
    told("predictions", n, memory, before, held())
    assert held() == before
    assert growth(memory) < 2

"""What it costs to notice training that goes wrong, as a share of the time of a run's tasks.

    python benchmarks/faults.py [--epochs 4] [--method snv]

Two tasks of noise with the shapes of `configs/mini-til.toml` are learned on the CPU while a clock runs around every
look (`snv.training.faults`) and around every copy that an epoch may go back to. The last line is JSON: ``share`` of all
seconds, and ``parts`` of it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from overhead import make
from snv.data import TaskStream, from_arrays
from snv.training import Training, judged, learn_task, loop

SECONDS: dict[str, float] = defaultdict(float)


def timed(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
    """The same work with a clock around it."""

    @wraps(work)
    def clocked(*arguments: Any) -> Any:
        start = time.perf_counter()
        try:
            return work(*arguments)
        finally:
            SECONDS[name] += time.perf_counter() - start

    return clocked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--method", default="snv")
    options = parser.parse_args()
    n = 550 * 12
    images = np.random.default_rng(0).integers(0, 255, (n, 32, 32, 3), dtype=np.uint8)
    stream = TaskStream(from_arrays(images, np.arange(n) % 12), 2, 0)
    learner = make(options.method, stream, options.epochs, 2)
    for name in ("_remember", "_look_at_loss", "_look_at_head"):
        setattr(Training, name, timed(name.strip("_"), getattr(Training, name)))
    loop.check_outcome = timed("check_outcome", loop.check_outcome)
    judge = timed("judged", judged)
    start = time.perf_counter()
    for t in range(2):
        task = stream.task(t).without_test()
        learn_task(learner, task)
        judge(learner, task)
        print(f"task {t + 1}: {time.perf_counter() - start:.0f} s", flush=True)
    total = time.perf_counter() - start
    parts = {name: seconds / total for name, seconds in SECONDS.items()}
    print(json.dumps({"method": options.method, "seconds": total, "share": sum(parts.values()), "parts": parts}))


if __name__ == "__main__":
    main()

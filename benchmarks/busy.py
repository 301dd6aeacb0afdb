"""Training beside other processes: steps per second of two threads on an idle and on a busy machine.

Threads that wait for each other spin before they sleep. Beside busy processes a spinning thread holds the core that
the thread it waits for needs. Every candidate is a process with its own environment, started once; they take short
turns, idle and beside busy processes that this script starts and ends, and the median turn counts.

    python benchmarks/busy.py [--all] [--turns 5] [--seconds 2] [--threads 2] [--spinners 2]

``before`` has no variable set, ``idle`` and ``busy`` are what our commands set on a machine they find so; ``--all``
adds the other candidates. The last line is JSON: ``busy_gain`` (``busy`` over ``before`` beside busy processes),
``busy_share`` (``busy`` beside busy processes over ``before`` on the idle machine: with as many busy processes as
cores, half is the most a fair scheduler gives) and ``idle_loss`` (1 − ``idle`` over ``before`` on the idle machine).
"Idle" is only what the machine makes of it: the load average at the start is printed too.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from snv.threads import DECIDING, ROUNDS, VARIABLE

BEFORE_AND_AFTER: dict[str, dict[str, str]] = {"before": {}} | {at: {VARIABLE: n} for at, n in ROUNDS.items()}
OTHERS = {f"{VARIABLE}={n}": {VARIABLE: str(n)} for n in (0, 100, 3000, 10_000, 100_000)}
OTHERS |= {"OMP_WAIT_POLICY=PASSIVE": {"OMP_WAIT_POLICY": "PASSIVE"}, "one thread": {"OMP_NUM_THREADS": "1"}}
SPINNER = "while True: pass"


class Worker:
    """A process that trains for as long as it is told, and answers with its steps per second."""

    def __init__(self, environment: dict[str, str], threads: int) -> None:
        inherited = {key: value for key, value in os.environ.items() if key not in DECIDING}
        command = [sys.executable, __file__, "--work"]
        self.process = subprocess.Popen(
            command,
            env=inherited | {"OMP_NUM_THREADS": str(threads)} | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def train(self, seconds: float) -> float:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


def work() -> None:
    """The worker's side: a number of seconds per line in, steps per second per line out."""
    import torch
    import torch.nn.functional as F

    from snv.networks import build_network

    network = build_network("resnet18", (3, 32, 32), seed=0, width=16).to(memory_format=torch.channels_last)
    network.add_head(10)
    optimizer = torch.optim.Adam(network.parameters())
    images = torch.rand(32, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    labels = torch.arange(32) % 10
    for line in sys.stdin:
        steps, start = 0, time.perf_counter()
        while steps == 0 or time.perf_counter() - start < float(line):
            optimizer.zero_grad()
            F.cross_entropy(network(images), labels).backward()
            optimizer.step()
            steps += 1
        print(steps / (time.perf_counter() - start), flush=True)


@contextmanager
def ended(process: subprocess.Popen) -> Iterator[subprocess.Popen]:
    """The process while the block runs; it is gone afterwards, also when the block fails."""
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def spinners(n: int) -> Iterator[None]:
    """Busy neighbours while the block runs."""
    with ExitStack() as stack:
        for _ in range(n):
            stack.enter_context(ended(subprocess.Popen([sys.executable, "-c", SPINNER])))
        time.sleep(0.3)  # until they are under way
        yield


def measure(candidates: dict[str, dict[str, str]], options: argparse.Namespace) -> dict[str, dict[str, list[float]]]:
    """Steps per second of every turn, idle and busy; a turn goes round all candidates."""
    speeds: dict[str, dict[str, list[float]]] = {name: {"idle": [], "busy": []} for name in candidates}
    with ExitStack() as stack:
        workers: dict[str, Worker] = {}
        for name, environment in candidates.items():
            workers[name] = Worker(environment, options.threads)
            stack.enter_context(ended(workers[name].process))
        for worker in workers.values():
            worker.train(0.5)  # warms up
        for turn in range(options.turns):
            order = list(workers) if turn % 2 else list(workers)[::-1]
            for state, n in (("idle", 0), ("busy", options.spinners)):
                with spinners(n):
                    for name in order:
                        speeds[name][state].append(workers[name].train(options.seconds))
            words = ", ".join(f"{name} {v['idle'][-1]:.1f}/{v['busy'][-1]:.1f}" for name, v in speeds.items())
            print(f"turn {turn + 1}: {words}", flush=True)
    return speeds


def ratios(before: dict[str, float], at_idle: dict[str, float], at_busy: dict[str, float]) -> dict[str, float]:
    return {
        "busy_gain": at_busy["busy"] / before["busy"],
        "busy_share": at_busy["busy"] / before["idle"],
        "idle_loss": 1 - at_idle["idle"] / before["idle"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="measure every candidate")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--spinners", type=int, default=2)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work()
        return
    load = os.getloadavg()[0]
    print(f"load average at the start: {load:.2f}; {os.cpu_count()} cores, {options.threads} threads")
    candidates = BEFORE_AND_AFTER | (OTHERS if options.all else {})
    speeds = measure(candidates, options)
    medians = {name: {state: statistics.median(s) for state, s in of.items()} for name, of in speeds.items()}
    print(f"\n{'':30}{'idle':>8}{'busy':>8}{'busy gain':>11}{'idle loss':>11}   (steps per second, median turn)")
    for name, speed in medians.items():
        found = ratios(medians["before"], speed, speed)
        label = f"{name} ({VARIABLE}={ROUNDS[name]})" if name in ROUNDS else name
        print(f"{label:30}{speed['idle']:8.1f}{speed['busy']:8.1f}{found['busy_gain']:11.1f}{found['idle_loss']:11.2f}")
    result = ratios(*(medians[name] for name in BEFORE_AND_AFTER))
    print(json.dumps(result | {"rounds": ROUNDS, "load_at_start": load, "steps_per_s": medians}))


if __name__ == "__main__":
    main()

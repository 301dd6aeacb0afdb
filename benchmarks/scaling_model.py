"""What a step of several processes would cost on machines we do not have: a model, its check, and a simulation.

    python benchmarks/parallel.py > measured.txt
    python benchmarks/scaling_model.py [--measured measured.txt]

The model counts operations, bytes and messages of what `snv.training.parallel` does; `--measured` holds its predictions
for two processes against what was measured on one and two. `GPU` is assumed, not measured; nothing here ran on one.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

FLOAT = 4  # bytes
TIMES = 3  # a step does the operations of a forward pass this many times: once forward, twice backward


@dataclass(frozen=True)
class Machine:
    """What a process computes on, and how processes are joined; all in operations, bytes and seconds."""

    flops: float  # a second, in training: what is reached, not what is printed on the box
    memory: float  # bytes a second
    launch: float  # of one kernel: below it no layer gets faster, however few images there are
    together: int  # processes in one box
    inside: float  # bytes a second and process, within a box
    between: float  # bytes a second and process, from box to box
    inside_latency: float
    between_latency: float
    message: float  # of one small message between processors, from box to box
    disk: float  # bytes a second that the first process writes


GPU = Machine(
    flops=120e12,
    memory=1.5e12,
    launch=5e-6,
    together=8,
    inside=200e9,
    between=20e9,
    inside_latency=2e-6,
    between_latency=15e-6,
    message=30e-6,
    disk=1e9,
)
"""Assumed: an A100-like GPU that reaches 120 of its 312 Tflop/s in bf16, eight in a box, 200 Gbit/s of network each, of
which 80 % arrive."""


@dataclass(frozen=True)
class Job:
    """A network on its images, and the batch of one step, over all processes."""

    name: str
    macs: float  # multiply-accumulates of a forward pass on one image
    parameters: float
    norms: int  # layers that measure the batch
    layers: int
    batch: int
    each: int  # images of a process, where a batch may grow with their number


JOBS = (
    Job("ResNet-18, ImageNet-1k", 1.82e9, 11.7e6, 20, 62, 1024, 128),
    Job("ViT-B/16", 17.6e9, 86.6e6, 0, 150, 4096, 128),
    Job("1 billion parameters", 257e9, 1e9, 0, 400, 4096, 32),
)
"""At 224 pixels. The last reads 257 tokens an image, and every token meets every parameter once."""


def exchange(machine: Machine, n_bytes: float, processes: int) -> float:
    """Seconds of adding up so many bytes: a ring within each box, then a tree of boxes, each process for its share."""
    inside, boxes = min(processes, machine.together), math.ceil(processes / machine.together)
    seconds = 2 * (inside - 1) * (machine.inside_latency + n_bytes / inside / machine.inside)
    if boxes > 1:
        seconds += 2 * math.ceil(math.log2(boxes)) * machine.between_latency
        seconds += 2 * (boxes - 1) / boxes * n_bytes / inside / machine.between
    return seconds


def control(machine: Machine, processes: int) -> float:
    """Seconds a step for asking whether anybody was told to stop: a ring of processors, at every n/8-th step."""
    return 2 * (processes - 1) * machine.message / max(1, processes // 8)


def step(machine: Machine, job: Job, processes: int) -> dict[str, float]:
    """Seconds of each part of a step; nothing of it overlaps, as in `snv.training.parallel`."""
    rows = math.ceil(job.batch / processes)
    work = 2 * TIMES * job.macs * rows / machine.flops
    together = processes > 1
    return {
        "compute": max(work, TIMES * job.layers * machine.launch),
        "optimiser": (7 + 4 * together) * FLOAT * job.parameters / machine.memory,  # Adam; into one row and back
        "gradients": exchange(machine, FLOAT * job.parameters, processes),
        "norm layers": 2 * job.norms * exchange(machine, 2048 * FLOAT, processes),
        "control": control(machine, processes),
    }


def overlapped(parts: dict[str, float]) -> float:
    """Seconds of a step whose gradients travelled while the backward pass, two thirds of the work, went on."""
    hidden = min(parts["gradients"], parts["compute"] * 2 / 3)
    return sum(parts.values()) - hidden


def efficiency(machine: Machine, job: Job, processes: int) -> float:
    """How much of the processes' time is what one process would need."""
    return sum(step(machine, job, 1).values()) / processes / sum(step(machine, job, processes).values())


def bottleneck(parts: dict[str, float]) -> str:
    return max(parts, key=lambda part: parts[part])


def changes(machine: Machine, job: Job) -> list[tuple[int, str]]:
    """From how many processes on (powers of two) which part takes the most time."""
    found: list[tuple[int, str]] = []
    for k in range(11):
        what = bottleneck(step(machine, job, 2**k))
        if not found or found[-1][1] != what:
            found.append((2**k, what))
    return found


def valuation(machine: Machine, job: Job, images: int, processes: int, draws: int = 24, minibatch: int = 16) -> float:
    """Seconds of a valuation: three passes over the validation images, shared; pairs of gradients, one process each."""
    passes = 3 * 2 * job.macs * math.ceil(images / processes) / machine.flops
    return passes + math.ceil(draws / 2 / processes) * 2 * 2 * TIMES * job.macs * minibatch / machine.flops


def checkpoint(machine: Machine, job: Job) -> tuple[float, float]:
    """Bytes of a checkpoint within a task, and seconds for which all wait: weights, two moments, the best epoch."""
    n_bytes = 4 * FLOAT * job.parameters
    return n_bytes, n_bytes / machine.disk


# ---- the check


def predicted(measured: dict[str, Any], network: str, clock: str) -> float:
    """Seconds of a step of two processes: of their halves beside each other, and of what they tell each other."""
    at, costs = measured[network], {int(n): times[clock] for n, times in measured["exchange"].items()}
    latency, per_number = costs[1], (costs[max(costs)] - costs[1]) / max(costs)
    messages = 2 * at["norms"] + 2  # norm layers forward and back; gradients; control
    return float(at["step"]["beside"][clock]) + messages * latency + at["parameters"] * per_number


def check(measured: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Of each network: predicted over measured, by the clock and in time of the processor."""
    networks = [name for name, found in measured.items() if isinstance(found, dict) and "step" in found]
    return {
        name: {c: predicted(measured, name, c) / measured[name]["step"]["two"][c] for c in ("clock", "processor")}
        for name in networks
    }


# ---- what is printed


def grown(job: Job, processes: int) -> Job:
    """The same with a batch that grows with the number of processes."""
    return replace(job, batch=job.each * processes)


def simulation(machine: Machine = GPU) -> list[dict[str, Any]]:
    rows = []
    for job in JOBS:
        for processes in (1, 8, 64, 1024):
            own = step(machine, grown(job, 1), 1)
            wide = step(machine, grown(job, processes), processes)
            parts = step(machine, job, processes)
            total = sum(parts.values())
            rows.append(
                {
                    "job": job.name,
                    "batch": job.batch,
                    "GPUs": processes,
                    "ms": 1000 * total,
                    "efficiency": efficiency(machine, job, processes),
                    "overlapped": sum(step(machine, job, 1).values()) / processes / overlapped(parts),
                    "largest": bottleneck(parts),
                    "share": parts[bottleneck(parts)] / total,
                    "grown": sum(own.values()) / sum(wide.values()),
                    "most of grown": bottleneck(wide),
                    "valuation s": valuation(machine, job, 13_000, processes),
                }
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measured", type=Path, help="what benchmarks/parallel.py printed")
    file = parser.parse_args().measured
    found: dict[str, Any] = {"simulation": simulation()}
    if file is not None:
        found["check"] = check(json.loads(file.read_text(encoding="utf-8").splitlines()[-1]))
        for name, at in found["check"].items():
            print(f"{name}, a step of two processes: predicted {at['clock']:.2f} times what was measured by the clock,")
            print(f"  {at['processor']:.2f} times what was measured of the processor")
    print("\n| network, images | GPUs | ms a step | efficiency | if overlapped | most of it | grown | valuation, s |")
    print("|---|--:|--:|--:|--:|---|--:|--:|")
    for row in found["simulation"]:
        share = f"{row['largest']}, {100 * row['share']:.0f} %"
        print(
            f"| {row['job']}, {row['batch']:,} | {row['GPUs']:,} | {row['ms']:.1f} | {100 * row['efficiency']:.0f} % "
            f"| {100 * row['overlapped']:.0f} % | {share} | {100 * row['grown']:.0f} % | {row['valuation s']:.2f} |"
        )
    found["changes"] = {job.name: changes(GPU, job) for job in JOBS}
    for name, at in found["changes"].items():
        print(f"{name}: " + ", ".join(f"from {n:,} GPUs on {what}" for n, what in at))
    found["checkpoints"] = {job.name: checkpoint(GPU, job) for job in JOBS}
    for name, (n_bytes, seconds) in found["checkpoints"].items():
        print(f"{name}: a checkpoint within a task has {n_bytes / 1e9:.1f} GB, {seconds:.1f} s at the assumed disk")
    print(json.dumps(found))


if __name__ == "__main__":
    main()

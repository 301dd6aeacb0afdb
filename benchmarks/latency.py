"""What an answer costs when no task is known: SNV after all its tasks against the dense network it lives in.

    python benchmarks/latency.py RUN [--batches 1 64] [--turns 30]         (a finished CIL run of snv)

Images are validation images of all tasks, mixed, so that a batch asks many specialists; both answer the same batch in
turn, on one thread, whose own time counts. The last line is JSON: milliseconds per image (median) of both by batch, and
``snv_over_dense``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import torch

from snv.runs import RunDirectory, open_run


def images_of(run, seed: int = 0) -> torch.Tensor:
    """Prepared validation images of every task, in one shuffled heap."""
    parts = [
        images for t in range(len(run.stream)) for images, _ in run.learner.setting.prepared(run.stream.task(t).val)
    ]
    heap = torch.cat(parts)
    return heap[torch.randperm(len(heap), generator=torch.Generator().manual_seed(seed))]


@torch.inference_mode()
def milliseconds(answers: dict[str, object], heap: torch.Tensor, batch: int, turns: int) -> dict[str, float]:
    """Per image, the median over turns; the first two are practice."""
    took: dict[str, list[float]] = {name: [] for name in answers}
    for turn in range(turns + 2):
        start = turn * batch % (len(heap) - batch)
        images = heap[start : start + batch].contiguous(memory_format=torch.channels_last)
        for name, answer in answers.items():
            begun = time.thread_time()
            answer(images)
            took[name].append((time.thread_time() - begun) * 1000 / batch)
    return {name: statistics.median(values[2:]) for name, values in took.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 64])
    parser.add_argument("--turns", type=int, default=30)
    options = parser.parse_args()
    torch.set_num_threads(1)
    run = open_run(options.run, None, lambda *_: None)
    learner = run.learner
    learner.load_state_dict(RunDirectory(options.run).newest()["learner"])
    network = learner.network.eval()
    heap = images_of(run)
    answers = {"snv": lambda x: learner.logits(x, None), "dense": network}
    found = {str(batch): milliseconds(answers, heap, batch, options.turns) for batch in options.batches}
    for batch, ms in found.items():
        print(f"batch {batch}: snv {ms['snv']:.2f} ms an image, dense {ms['dense']:.2f}")
    ratios = {batch: ms["snv"] / ms["dense"] for batch, ms in found.items()}
    print(json.dumps({"ms": found, "snv_over_dense": ratios, "tasks": len(learner.blocks)}))


if __name__ == "__main__":
    main()

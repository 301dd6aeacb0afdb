"""What a step of every stage of NFL and NFL+ costs beside one of SGD.

    python benchmarks/nfl_steps.py [--turns 15] [--batch 64] [--stem 3x3]

A ResNet-18 of width 16 on noise of 32 pixels, in the third of three tasks. Stages take their steps in turn, on one
thread; a step is its least CPU time, so that a busy machine does not matter. The last line is JSON: the seconds of a
step of SGD, and every other step over it.
"""

from __future__ import annotations

import argparse
import json

import numpy as np
import torch

from snv.data import Preprocess, TaskStream, from_arrays
from snv.learners import LEARNERS
from snv.networks import build_network
from snv.training import Setting, TrainSettings, learn_task
from steps import least_seconds, step_of


def steps_of(name: str, stream: TaskStream, options: argparse.Namespace):
    """For every stage of the third task a function that takes one step and returns its CPU seconds."""
    train = TrainSettings(epochs=1, batch_size=options.batch, precision="fp32")
    network = build_network("resnet18", (3, 32, 32), 0, width=16, stem=options.stem)
    network.to(memory_format=torch.channels_last)
    device, preprocess = torch.device("cpu"), Preprocess.of(stream.source)
    learner = LEARNERS[name](Setting(network, "til", train, preprocess, device, 0, len(stream)))
    for t in range(2):
        learn_task(learner, stream.task(t).without_test())
    task = stream.task(2).without_test()
    learner.begin_task(task)
    steps, k = {}, 0
    while (stage := learner.stage(task, k)) is not None:
        steps[f"{name} {stage.name}"] = step_of(learner, task, stage)
        steps[f"{name} {stage.name}"]()
        learner.end_stage(task, stage)
        k += 1
    return steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--stem", default="3x3")
    options = parser.parse_args()
    torch.set_num_threads(1)
    n = 12 * options.batch
    images = np.random.default_rng(0).integers(0, 255, (n, 32, 32, 3), dtype=np.uint8)
    stream = TaskStream(from_arrays(images, np.arange(n) % 18), 3, 0)
    steps = {}
    for name in ("sgd", "lwf", "nfl", "nfl+"):
        steps |= steps_of(name, stream, options)
    least = least_seconds(steps, options.turns)
    plain = least.pop("sgd train")
    over = {name: round(seconds / plain, 2) for name, seconds in least.items()}
    print(json.dumps({"sgd_seconds": round(plain, 4)} | over))


if __name__ == "__main__":
    main()

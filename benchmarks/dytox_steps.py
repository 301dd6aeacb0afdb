"""What a step of DyTox costs beside one of its own plain transformer: in the second and tenth task, and in finetuning.

    python benchmarks/dytox_steps.py [--turns 15] [--batch 32] [--dim 96] [--encoder resnet]

In its first task DyTox is a plain transformer: one token, one head, no teacher, no divergence, no memory. Beside it the
same transformer in later tasks, on noise of 32 × 32 pixels. All take their steps in turn, on one thread; a step is its
least CPU time, so that a busy machine does not matter. The last line is JSON: the seconds of the plain step, and every
other step over it.
"""

from __future__ import annotations

import argparse
import json

import numpy as np
import torch

from snv.data import Preprocess, TaskStream, from_arrays
from snv.learners import DyTox
from snv.networks import build_network
from snv.training import Setting, TrainSettings
from steps import least_seconds, step_of


def steps_of(stream: TaskStream, t: int, options: argparse.Namespace, index: int = 0, asked: float = 1.0):
    """A function that takes one step of a stage of task ``t`` and returns its CPU seconds."""
    train = TrainSettings(batch_size=options.batch, precision="fp32")
    network, cpu = build_network("resnet18", (3, 32, 32), 0, width=16), torch.device("cpu")
    setting = Setting(network, "cil", train, Preprocess.of(stream.source), cpu, 0, len(stream))
    learner = DyTox(setting, DyTox.Config(encoder=options.encoder, dim=options.dim, buffer=60, asked=asked))
    for s in range(t + 1):  # tokens, heads, exemplars and teacher, without any training
        task = stream.task(s).without_test()
        learner.begin_task(task)
        stage = learner.stage(task, 0)
        assert stage is not None
        if s < t or index > 0:
            learner.end_stage(task, stage)
    return step_of(learner, task, learner.stage(task, index))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--dim", type=int, default=96)
    parser.add_argument("--encoder", choices=("patches", "resnet"), default="patches")
    options = parser.parse_args()
    torch.set_num_threads(1)
    n, n_tasks = 20 * options.batch, 10
    images = np.random.default_rng(0).integers(0, 255, (n, 32, 32, 3), dtype=np.uint8)
    stream = TaskStream(from_arrays(images, np.arange(n) % (6 * n_tasks)), n_tasks, 0)
    steps = {"plain": steps_of(stream, 0, options)}
    for t in (1, n_tasks - 1):
        steps[f"task {t + 1}"] = steps_of(stream, t, options)
    steps[f"task {n_tasks}, half asked"] = steps_of(stream, n_tasks - 1, options, asked=0.5)
    steps["finetune"] = steps_of(stream, n_tasks - 1, options, index=1)
    least = least_seconds(steps, options.turns)
    over = {name: round(seconds / least["plain"], 2) for name, seconds in least.items() if name != "plain"}
    print(json.dumps({"plain_seconds": round(least["plain"], 4)} | over))


if __name__ == "__main__":
    main()

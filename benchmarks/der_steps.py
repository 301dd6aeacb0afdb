"""What a step of DER++ costs beside one of SGD: separate and joint passes, whole and smaller draws.

    python benchmarks/der_steps.py [--turns 15] [--batch 32]

The ResNet-18 of `configs/mini-til.toml` in the second of two tasks, on noise of its shapes. Methods take their steps in
turn, on one thread; a step is its least CPU time, so that a busy machine does not matter. The last line is JSON: the
seconds of SGD's step, and every other step over it.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch

from snv.config import load_config
from snv.data import Preprocess, TaskStream, from_arrays
from snv.learners import LEARNERS
from snv.networks import build_network
from snv.training import Setting, Training, learn_task

CPU = torch.device("cpu")
MINI = Path(__file__).parents[1] / "configs" / "mini-til.toml"


def steps_of(name: str, stream: TaskStream, batch: int, **settings: object):
    """A function that takes one step of the second task and returns its CPU seconds."""
    config = load_config(MINI, [f"train.batch_size={batch}", "train.epochs=1", "train.precision=fp32"])
    network = build_network(config.network.name, (3, 32, 32), 0, width=config.network.width, stem=config.network.stem)
    network.to(memory_format=torch.channels_last)
    kind, preprocess = LEARNERS[name], Preprocess.of(stream.source)
    learner = kind(Setting(network, "til", config.train, preprocess, CPU, 0, len(stream)), kind.Config(**settings))
    learn_task(learner, stream.task(0).without_test())
    task = stream.task(1).without_test()
    learner.begin_task(task)
    stage = learner.stage(task, 0)
    assert stage is not None
    training = Training(learner, task, stage)
    learner.set_training(True, stage)
    one = next(training._batches())

    def step() -> float:
        start = time.process_time()
        learner.step(one, training.optimizer)
        return time.process_time() - start

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--batch", type=int, default=32)
    options = parser.parse_args()
    torch.set_num_threads(1)
    n = 24 * options.batch  # 70 percent of either half are for training
    images = np.random.default_rng(0).integers(0, 255, (n, 32, 32, 3), dtype=np.uint8)
    stream = TaskStream(from_arrays(images, np.arange(n) % 12), 2, 0)
    part = 3 * options.batch // 4
    steps = {"sgd": steps_of("sgd", stream, options.batch)}
    for passes in ("separate", "joint"):
        steps[f"{passes}, a batch"] = steps_of("der++", stream, options.batch, passes=passes)
        steps[f"{passes}, 3/4"] = steps_of("der++", stream, options.batch, passes=passes, replay=part)
    least = dict.fromkeys(steps, float("inf"))
    for _ in range(options.turns):
        for name, step in steps.items():
            least[name] = min(least[name], step())
    over = {name: round(seconds / least["sgd"], 2) for name, seconds in least.items() if name != "sgd"}
    print(json.dumps({"sgd_seconds": round(least["sgd"], 4)} | over))


if __name__ == "__main__":
    main()

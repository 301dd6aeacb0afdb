"""What a step of SpaceNet and NISPA costs beside one of SGD in the same network: their own, and adapted ones.

    python benchmarks/sparse_steps.py [--turns 15] [--batch 64]

In the second of two tasks, on noise; "rewiring" is the step of SpaceNet that begins an epoch. Methods take their steps
in turn, on one thread; a step is its least CPU time, so that a busy machine does not matter. The last line is JSON:
seconds of SGD's step by network, and the other steps over it.
"""

from __future__ import annotations

import argparse
import json

import numpy as np
import torch

from snv.data import Preprocess, TaskStream, from_arrays
from snv.learners import LEARNERS
from snv.networks import MLP, Network, PlainConvNet, build_network, use_instance_norm
from snv.seeding import generator
from snv.training import Setting, TrainSettings, learn_task
from steps import least_seconds, step_of

CPU = torch.device("cpu")
CASES = (("convnet", 16, 1), ("native spacenet", 28, 1), ("resnet18", 32, 3), ("native nispa", 32, 3))
"""Networks, and side and channels of their images."""


def network(name: str, shape: tuple[int, int, int]) -> Network:
    rng = generator(0, "network")
    if name == "native spacenet":
        return Network(MLP(rng, shape, (400, 400)), 0)
    if name == "native nispa":
        return Network(PlainConvNet(rng, shape), 0)
    built = build_network(name, shape, 0, width=16)
    use_instance_norm(built.body)
    return built


def steps_of(method: str, of: str, stream: TaskStream, batch: int):
    """A learner in its second task: its step, and the one that begins an epoch, which rewires SpaceNet."""
    kind, settings = LEARNERS[method], TrainSettings(epochs=2, batch_size=batch, precision="fp32")
    made = network(of, stream.source.shape).to(memory_format=torch.channels_last)
    setting = Setting(made, "til", settings, Preprocess.of(stream.source), CPU, 0, len(stream))
    own = {} if method == "sgd" else {"network": "native" if of.startswith("native") else "adapted"}
    learner = kind(setting, kind.Config(**own))
    learn_task(learner, stream.task(0).without_test())
    task = stream.task(1).without_test()
    learner.begin_task(task)
    stage = learner.stage(task, 0)
    steps = {method: step_of(learner, task, stage)}
    return steps | ({"rewiring": step_of(learner, task, stage, epoch=1)} if method == "spacenet" else {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--batch", type=int, default=64)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rng, n, result = np.random.default_rng(0), 6 * options.batch, {}
    for of, side, channels in CASES:
        images = rng.integers(0, 255, (n, side, side, channels)[: 3 + (channels > 1)], dtype=np.uint8)
        stream = TaskStream(from_arrays(images, np.arange(n) % 4), 2, 0)
        methods = [of.split()[1]] if of.startswith("native") else ["spacenet", "nispa"]
        steps = {}
        for name in ("sgd", *methods):
            steps |= steps_of(name, of, stream, options.batch)
        least = least_seconds(steps, options.turns)
        over = {name: round(seconds / least["sgd"], 3) for name, seconds in least.items() if name != "sgd"}
        result[of] = {"sgd_seconds": round(least["sgd"], 5)} | over
        print(of, result[of], flush=True)
    print(json.dumps(result))


if __name__ == "__main__":
    main()

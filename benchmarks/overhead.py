"""What a method costs beside plain training: SNV as a whole, its valuation, its freezing; and every baseline's step.

    python benchmarks/overhead.py [--data-dir FOLDER] [--tasks 5] [--epochs 8]

With Tiny-ImageNet at hand (``--data-dir`` or $SNV_DATA) the whole runs are the `mini-til` stream, else pictures of
noise with the same shapes. SGD and SNV learn it task by task in turn, in one process; steps are timed in turn, batch
by batch. The last line is JSON: ``valuation_share`` (of SNV's training time), ``snv_over_sgd``,
``freeze_step_overhead`` (of a dense step with half of the neurons frozen over the same step without) and
``step_over_sgd`` per method.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import time
from pathlib import Path

import numpy as np
import torch

from snv.components import Frozen
from snv.config import load_config
from snv.data import Preprocess, TaskStream, from_arrays, load_source
from snv.errors import UserError
from snv.learners import LEARNERS
from snv.networks import build_network
from snv.runs import Meter
from snv.training import Batch, Reporter, Setting, Stage, Training, learn_task

CPU = torch.device("cpu")
MINI = Path(__file__).parents[1] / "configs" / "mini-til.toml"


def stream_of(options: argparse.Namespace) -> TaskStream:
    """Real pictures if they are there, else noise of the same shapes."""
    try:
        source = load_source("tiny-imagenet", data_dir=options.data_dir, size=32)
        return TaskStream(source, options.tasks, 0, n_classes=6 * options.tasks)
    except UserError as error:
        print(f"no pictures ({error}); using noise")
    n = 550 * 6 * options.tasks
    images = np.random.default_rng(0).integers(0, 255, (n, 32, 32, 3), dtype=np.uint8)
    return TaskStream(from_arrays(images, np.arange(n) % (6 * options.tasks)), options.tasks, 0)


def make(name: str, stream: TaskStream, epochs: int | None, n_tasks: int):
    """The learner as a run of `configs/mini-til.toml` has it."""
    config = load_config(MINI)
    train = dataclasses.replace(config.train, precision="fp32", epochs=epochs or config.train.epochs)
    network = build_network(config.network.name, (3, 32, 32), 0, width=config.network.width, stem=config.network.stem)
    kind = LEARNERS[name]
    network.to(memory_format=torch.channels_last)
    return kind(Setting(network, kind.card.scenarios[0], train, Preprocess.of(stream.source), CPU, 0, n_tasks))


def learn(learner, stream: TaskStream, t: int, meter: Meter) -> float:
    """One task as the engine does it; returns its seconds, evaluation left out."""
    learner.reporter = Reporter(phase=meter.phase)
    task = stream.task(t).without_test()
    start = time.perf_counter()
    with meter.phase("train"):
        learn_task(learner, task)
    took = time.perf_counter() - start
    task.close()
    return took


class Steps:
    """A learner in the middle of its second task, ready to take single steps of its first stage."""

    def __init__(self, name: str, stream: TaskStream, **config: object) -> None:
        self.learner = make(name, stream, 1, 10)
        if config:
            kind = type(self.learner)
            self.learner = kind(self.learner.setting, kind.Config(**config))
        learn(self.learner, stream, 0, Meter())
        self.task = stream.task(1).without_test()
        self.learner.begin_task(self.task)
        stage = self.learner.stage(self.task, 0)
        assert stage is not None
        self.training = Training(self.learner, self.task, stage)
        self.stage: Stage = stage
        self.learner.set_training(True, stage)
        self.batches: list[Batch] = [batch for batch, _ in zip(self.training._batches(), range(6), strict=False)]

    def step(self, i: int) -> float:
        start = time.perf_counter()
        self.learner.step(self.batches[i % len(self.batches)], self.training.optimizer)
        return time.perf_counter() - start


def step_ratios(stream: TaskStream, rounds: int) -> dict[str, float]:
    """Median seconds of a step over those of the same step of SGD."""
    names = [
        name for name, kind in LEARNERS.items() if name not in ("sgd", "joint") and kind.card.sees == "current task"
    ]
    ratios = {}
    for name in names:
        plain, other = Steps("sgd", stream), Steps(name, stream)
        ratios[name] = ratio_of(plain, other, rounds)
        print(f"step of {name} over sgd: {ratios[name]:.2f}", flush=True)
    return ratios


def ratio_of(plain: Steps, other: Steps, rounds: int) -> float:
    ratios = []
    for i in range(rounds + 2):
        order = (plain, other) if i % 2 else (other, plain)
        took = {id(steps): steps.step(i) for steps in order}
        if i >= 2:
            ratios.append(took[id(other)] / took[id(plain)])
    return statistics.median(ratios)


def freeze_overhead(stream: TaskStream, rounds: int) -> float:
    """A dense step that puts half of all neurons back, over the same step that does not."""
    bare, held = Steps("snv", stream, capacity=0.5), Steps("snv", stream, capacity=0.5)
    bare.learner.frozen = Frozen([])
    return ratio_of(bare, held, rounds) - 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--tasks", type=int, default=5)
    parser.add_argument("--epochs", type=int, help="instead of the config's")
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    stream = stream_of(options)
    result: dict[str, object] = {"freeze_step_overhead": freeze_overhead(stream, options.rounds)}
    print(f"freezing adds {100 * float(result['freeze_step_overhead']):.1f} % to a step", flush=True)  # type: ignore[arg-type]
    result["step_over_sgd"] = step_ratios(stream, options.rounds)
    learners = {name: make(name, stream, options.epochs, options.tasks) for name in ("sgd", "snv")}
    meters = {name: Meter() for name in learners}
    seconds = dict.fromkeys(learners, 0.0)
    for t in range(options.tasks):
        for name, learner in learners.items():
            took = learn(learner, stream, t, meters[name])
            seconds[name] += took
            print(f"task {t + 1} {name}: {took:.1f} s", flush=True)
    result["valuation_share"] = meters["snv"].seconds["value"] / seconds["snv"]
    result["snv_over_sgd"] = seconds["snv"] / seconds["sgd"]
    result |= {
        "tasks": options.tasks,
        "epochs": learners["sgd"].setting.train.epochs,
        "threads": torch.get_num_threads(),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()

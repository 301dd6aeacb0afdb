"""A stream that learns in a second: pictures of 8 × 8 pixels, one bright spot per class."""

from __future__ import annotations

import numpy as np
import torch

from snv.data import Preprocess, TaskStream, from_arrays
from snv.learners import LEARNERS, Learner
from snv.networks import build_network
from snv.training import Setting, TrainSettings, learn_task

LR = {"dytox": 1e-3}
"""Of methods that bring a network of their own which takes smaller steps than a perceptron of one layer."""
SMALL = {"dytox": {"depth": 1, "finetune_epochs": 4}}
"""Settings with which a method learns in a second, where its defaults take longer."""


def toy_stream(n_tasks: int = 3, seed: int = 0) -> TaskStream:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(2 * n_tasks), 30)
    images = rng.integers(0, 60, (len(labels), 8, 8), dtype=np.uint8)
    for image, label in zip(images, labels, strict=True):
        row, column = divmod(int(label), 3)
        image[2 * row : 2 * row + 3, 2 * column : 2 * column + 3] += 150
    return TaskStream(from_arrays(images, labels), n_tasks, seed)


def make(name: str, scenario: str, stream: TaskStream, epochs: int = 8, seed: int = 0, **config: object) -> Learner:
    kind = LEARNERS[name]
    setting = Setting(
        network=build_network("mlp", stream.source.shape, seed, hidden=[24]),
        scenario=scenario,
        train=TrainSettings(epochs=epochs, batch_size=16, lr=LR.get(name, 5e-3), patience=4, precision="fp32"),
        preprocess=Preprocess.of(stream.source),
        device=torch.device("cpu"),
        seed=seed,
        n_tasks=len(stream),
    )
    return kind(setting, kind.Config(**{**SMALL.get(name, {}), **config}))


def learn(learner: Learner, stream: TaskStream, t: int) -> None:
    """One task, as the engine does it."""
    task = (stream.upto(t) if learner.card.sees == "all tasks" else stream.task(t)).without_test()
    learn_task(learner, task)
    task.close()

"""Sparse methods in small networks: the run's convnet or ResNet, or their own."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch
from toy import make, toy_stream

from snv.data import TaskStream, from_arrays
from snv.learners import LEARNERS
from snv.networks import build_network

OPTIMISERS = [
    {"optimizer": "adam"},
    {"optimizer": "adam", "weight_decay": 5e-3, "clip_norm": 1.0},
    {"optimizer": "adamw", "weight_decay": 5e-2},
    {"optimizer": "sgd", "momentum": 0.9, "weight_decay": 5e-3, "lr": 0.05},
]


def large_stream(n_tasks: int = 2) -> TaskStream:
    """The toy pictures at 16 × 16, so that a ResNet has more than one position left."""
    source = toy_stream(n_tasks).source
    pixels = source.split(np.arange(len(source.labels)), torch.as_tensor(source.labels)).pixels[:, 0].numpy()
    return TaskStream(from_arrays(np.kron(pixels, np.ones((1, 2, 2), np.uint8)), source.labels), n_tasks, 0)


def adapted(name: str, scenario: str, stream: TaskStream, network: str = "convnet", width: int = 8, **changes):
    """In a network of a run, with weights laid out as runs have them; ``changes`` of training or of the method."""
    kind, setting = LEARNERS[name], make("sgd", "til", stream).setting
    own = {f.name for f in dataclasses.fields(kind.Config)}
    config = kind.Config(network="adapted", **{key: value for key, value in changes.items() if key in own})
    train = dataclasses.replace(setting.train, **{key: value for key, value in changes.items() if key not in own})
    built = build_network(network, stream.source.shape, 0, width=width).to(memory_format=torch.channels_last)
    return kind(dataclasses.replace(setting, network=built, scenario=scenario, train=train), config)


def probes(size: int = 8) -> torch.Tensor:
    return torch.randn(7, 1, size, size, generator=torch.Generator().manual_seed(5))


def trained(learner) -> dict[str, torch.Tensor]:
    """A copy of all parameters of the body."""
    return {name: p.detach().clone() for name, p in learner.network.body.named_parameters()}

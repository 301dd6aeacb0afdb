"""SNV on the toy stream."""

from __future__ import annotations

import dataclasses

import torch
from toy import learn, make, toy_stream

from snv.networks import build_network


def learned(n_tasks: int = 3, scenario: str = "til", **config):
    stream = toy_stream(n_tasks)
    learner = make("snv", scenario, stream, capacity=0.3, **config)
    for t in range(n_tasks):
        learn(learner, stream, t)
    return learner, stream


def probes() -> torch.Tensor:
    return torch.randn(7, 1, 8, 8, generator=torch.Generator().manual_seed(5))


def normed(learner, **config):
    """The same with a small convolutional network that has norm layers."""
    setting = dataclasses.replace(
        learner.setting, network=build_network("convnet", learner.setting.preprocess.shape, 0, width=6)
    )
    return type(learner)(setting, type(learner.config)(**{"capacity": 0.3, **config}))

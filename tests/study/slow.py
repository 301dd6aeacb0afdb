"""A method that takes its time, so that a run can be stopped while it is at work."""

from __future__ import annotations

import time

import torch
from torch import Tensor

from snv.learners.sgd import SGD
from snv.training import Batch


class Slow(SGD):
    """Plain training, at most ten steps a second."""

    def step(self, batch: Batch, optimizer: torch.optim.Optimizer) -> Tensor:
        time.sleep(0.1)
        return super().step(batch, optimizer)


class Asleep(SGD):
    """Plain training that takes its time once, before the first step."""

    def step(self, batch: Batch, optimizer: torch.optim.Optimizer) -> Tensor:
        if (batch.task, batch.epoch, batch.step) == (0, 0, 0):
            time.sleep(6)
        return super().step(batch, optimizer)

"""A method that goes wrong: its weights and its loss become no numbers at one step, unless the rate is low."""

from __future__ import annotations

import torch
from torch import Tensor

from snv.learners import SNV, Learner
from snv.training import Batch


def break_at(learner: Learner, task: int, stage: str, epoch: int, step: int, above: float) -> None:
    """From now on that step ends in NaN as long as the rate is higher than ``above``."""
    taken = learner.step

    def broken(batch: Batch, optimizer: torch.optim.Optimizer) -> Tensor:
        loss = taken(batch, optimizer)
        here = (batch.task, batch.stage.name, batch.epoch, batch.step) == (task, stage, epoch, step)
        return poisoned(loss, optimizer) if here and rate_of(optimizer) > above else loss

    learner.step = broken


def rate_of(optimizer: torch.optim.Optimizer) -> float:
    return float(optimizer.param_groups[0]["lr"])


@torch.no_grad()
def poisoned(loss: Tensor, optimizer: torch.optim.Optimizer) -> Tensor:
    """As after a gradient that overflowed: no weight that moves is a number, nor is the loss."""
    for group in optimizer.param_groups:
        for weight in group["params"]:
            weight.fill_(float("nan"))
    return loss * float("inf")


class Breaks(SNV):
    """SNV that goes wrong in the second task, once in its dense phase and once while its subnetwork consolidates."""

    def step(self, batch: Batch, optimizer: torch.optim.Optimizer) -> Tensor:
        loss = super().step(batch, optimizer)
        here = batch.task == 1 and batch.epoch == 1 and batch.step == 2
        return poisoned(loss, optimizer) if here and rate_of(optimizer) > 0.001 else loss


class BreaksTwice(Breaks):
    """And at the lower rate too."""

    def step(self, batch: Batch, optimizer: torch.optim.Optimizer) -> Tensor:
        loss = super().step(batch, optimizer)
        return poisoned(loss, optimizer) if batch.task == 1 and batch.epoch == 1 else loss

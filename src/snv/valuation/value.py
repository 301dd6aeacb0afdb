"""Shapley values of the neurons of any PyTorch network, with error bars, in one call."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from snv.errors import UserError
from snv.neurons import Forward, Neurons, evaluating, find_neurons
from snv.shapley import (
    Budget,
    Number,
    Progress,
    Valuation,
    Workers,
    as_threaded_as,
    estimate,
    estimator,
    forecast,
    workers_of,
)
from snv.valuation.examples import Data, examples_of
from snv.valuation.neuron_game import NeuronGame
from snv.valuation.payoffs import Terms

log = logging.getLogger(__name__)

TIMED = 32
"""Examples on which the time of a forward pass is measured."""


@dataclass(frozen=True)
class Bill:
    """What a valuation will cost, estimated before it starts."""

    method: str
    neurons: int
    examples: int
    evaluations: float  # in V(S) on all examples; an upper bound where the method may stop early
    forward_passes: float  # of single examples
    macs: float
    seconds: float  # from V(all) timed on a few examples
    engine: str  # how coalitions are evaluated: shared prefixes, or whole forward passes
    workers: int = 1  # that share the work

    def __str__(self) -> str:
        return (
            f"{self.method}: {self.neurons:,} neurons, at most {self.evaluations:,.0f} evaluations on "
            f"{self.examples:,} examples = {self.forward_passes:,.0f} forward passes, {self.macs / 1e9:,.1f} G "
            f"multiply-accumulates, about {spoken(self.seconds)}{self._shared()}; coalitions by {self.engine}"
        )

    def _shared(self) -> str:
        return f" with {self.workers} workers" if self.workers > 1 else ""


def value_neurons(
    model: nn.Module,
    data: Data,
    method: str = "gradient",
    *,
    payoff: str | Terms = "loss",
    k: Number = 0.1,
    seed: int = 0,
    max_evaluations: Number = math.inf,
    max_seconds: Number = math.inf,
    neurons: Neurons | None = None,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    groups: Tensor | None = None,
    forward: Forward | None = None,
    memory: int | None = None,
    announce: Callable[[Bill], None] | None = None,
    progress: Progress | None = None,
    resume: Valuation | None = None,
    workers: int | Workers | None = None,
    **settings: Any,
) -> Valuation:
    """The Shapley value of every filter and hidden unit of ``model``, in the game V(S) = payoff with only S active.

    A neuron outside S is held at its mean response over ``data``; nothing is trained and the model is left as it was.
    Examples of a `Dataset`, also of one behind a `DataLoader`, are read when they are needed and not kept, so their
    number does not matter to memory.
    ``settings`` are those of the estimator (`snv.valuation.ESTIMATORS`), e.g. ``draws=64`` of ``gradient``. The bill is
    given to ``announce`` (or logged) before anything is spent; ``max_evaluations`` and ``max_seconds`` end the
    estimation early, with the estimate so far and the reason in ``stopped``.
    With ``workers`` other processes evaluate coalitions and gradients; their number changes the time, not the values.
    """
    estimator(method)  # an unknown name is refused before the data are read
    workers, budget = workers_of(workers), Budget(max_evaluations=max_evaluations, max_seconds=max_seconds)
    with as_threaded_as(workers):
        game = neuron_game(model, data, payoff, neurons, include, exclude, groups, forward, memory)
        (announce or log_bill)(bill(game, method, 1 if workers is None else workers.n, k=k, **settings))
        return estimate(
            game, method, seed=seed, budget=budget, progress=progress, resume=resume, workers=workers, k=k, **settings
        )


def neuron_game(
    model: nn.Module,
    data: Data,
    payoff: str | Terms = "loss",
    neurons: Neurons | None = None,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    groups: Tensor | None = None,
    forward: Forward | None = None,
    memory: int | None = None,
) -> NeuronGame:
    """The game of a network's neurons on some data."""
    images, labels = examples_of(data, _device(model))
    if neurons is None:
        few = next(images.batches([torch.arange(min(2, len(images)))]))
        neurons = find_neurons(model, few, include=include, exclude=exclude, forward=forward)
    if neurons.n == 0:
        raise UserError(
            "No neurons were found: the model has no convolution or linear layer besides its classifier head, or all "
            "are excluded. Check include= and exclude=."
        )
    return NeuronGame(model, images, labels, neurons, payoff, groups=groups, forward=forward, memory=memory)


def bill(game: NeuronGame, method: str, workers: int = 1, **settings: Any) -> Bill:
    """The cost of a valuation: evaluations from the method's settings, time from V(all) on a few examples."""
    evaluations = forecast(game, method, **settings)
    everyone, few = torch.ones(1, game.n, dtype=torch.bool), torch.arange(min(TIMED, game.n_examples))
    spent = game.evaluations
    game.values(everyone, few)  # warms up
    start = time.perf_counter()
    game.values(everyone, few)
    seconds = (time.perf_counter() - start) * game.n_examples / len(few)
    game.evaluations = spent  # the bill is free
    forward_passes = evaluations * game.n_examples
    return Bill(
        method=method,
        neurons=game.n,
        examples=game.n_examples,
        evaluations=evaluations,
        forward_passes=forward_passes,
        macs=forward_passes * _macs_per_example(game),
        seconds=seconds * evaluations / workers,
        engine=game.engine,
        workers=workers,
    )


def _macs_per_example(game: NeuronGame) -> float:
    with evaluating(game.model), torch.inference_mode(), FlopCounterMode(display=False) as counter:
        game.forward(next(game.examples.batches([torch.zeros(1, dtype=torch.long)])))
    return float(counter.get_total_flops()) / 2


def log_bill(cost: Bill) -> None:
    log.info("%s", cost)


def spoken(seconds: float) -> str:
    """A duration in the unit a person would use."""
    for unit, length in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:.1f} seconds"


def _device(model: nn.Module) -> torch.device:
    tensor = next(iter([*model.parameters(), *model.buffers()]), None)
    return torch.device("cpu") if tensor is None else tensor.device

"""The cooperative game: players, and V(S) of any coalition of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TypeVar

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from snv.shapes import Gates, Indices, Mask

Coalitions = Bool[Tensor, "p n"]
Payoffs = Float64[Tensor, " p"]
Drawn = TypeVar("Drawn")


class Game(ABC):
    """V(S) for players 0..n−1. Estimators see nothing else, so they are tested on games of three players.

    ``evaluations`` counts what was spent, in units of one V(S) on all data: a coalition on a minibatch of 10 % costs
    0.1, a suffix of the network costs its share of the multiply-accumulates, a gradient costs 3.
    """

    n: int
    n_examples: int = 1  # V is a mean over this many examples if `samples_examples`
    samples_examples: bool = False  # True: `rows` may restrict V to a minibatch, and V(S) is the mean over minibatches
    differentiable: bool = False  # True: `gradient` exists
    evaluations: float = 0.0

    @abstractmethod
    def values(self, coalitions: Coalitions, rows: Indices | None = None) -> Payoffs:
        """V(S) of each coalition, on all examples or on those of ``rows``."""

    def __call__(self, coalition: Mask) -> float:
        """V(S) of one coalition."""
        return float(self.values(coalition[None])[0])

    def flips(self, coalition: Mask, players: Indices, rows: Indices | None = None) -> Payoffs:
        """V(S ∪ i) − V(S ∖ i) of each of ``players`` at one shared S. Plain version; networks have a faster one."""
        without = coalition.repeat(len(players), 1)
        without[torch.arange(len(players)), players] = False
        present = without.clone()
        present[torch.arange(len(players)), players] = True
        both = self.values(torch.cat([present, without]), rows)
        return both[: len(players)] - both[len(players) :]

    def gradient(
        self,
        gates: Gates,  # noqa: ARG002 - for games that have one
        rows: Indices | None = None,  # noqa: ARG002
    ) -> tuple[Float64[Tensor, "p n"], Payoffs]:
        """∂v/∂m at each row of ``gates`` and v there, v being V continued to gates in [0, 1]."""
        raise TypeError(f"{type(self).__name__} has no gradient; use an estimator that needs V(S) only")

    def drawn(
        self,
        draw: Callable[[range], Drawn],
        numbers: range,
        later: Iterable[range] = (),  # noqa: ARG002 - for workers, who look ahead
    ) -> Drawn:
        """``draw(numbers)``, whose turn it is; ``later`` are the draws after it, should nothing end them."""
        return draw(numbers)

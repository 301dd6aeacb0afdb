"""Games made of another: one that times itself, and one of a few players while all others take part."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float64
from torch import Tensor

from snv.shapes import Gates, Indices, Mask
from snv.shapley import Coalitions, Game, Payoffs


class Timed(Game):
    """The same game; ``seconds`` are those it was at work, which for a network is in forward and backward passes."""

    def __init__(self, game: Game) -> None:
        self.game, self.n = game, game.n
        self.n_examples, self.samples_examples = game.n_examples, game.samples_examples
        self.differentiable = game.differentiable
        self.seconds = 0.0

    def values(self, coalitions: Coalitions, rows: Indices | None = None) -> Payoffs:
        with self._at_work():
            return self.game.values(coalitions, rows)

    def flips(self, coalition: Mask, players: Indices, rows: Indices | None = None) -> Payoffs:
        with self._at_work():
            return self.game.flips(coalition, players, rows)

    def gradient(self, gates: Gates, rows: Indices | None = None) -> tuple[Float64[Tensor, "p n"], Payoffs]:
        with self._at_work():
            return self.game.gradient(gates, rows)

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - started
        self.evaluations = self.game.evaluations


class Among(Game):
    """V(S) where only some players may be absent: those of ``players``; everyone else always takes part."""

    def __init__(self, game: Game, players: Indices) -> None:
        self.game, self.players, self.n = game, players, len(players)
        self.n_examples, self.samples_examples = game.n_examples, game.samples_examples

    def values(self, coalitions: Coalitions, rows: Indices | None = None) -> Payoffs:
        whole = torch.ones(len(coalitions), self.game.n, dtype=torch.bool)
        whole[:, self.players] = coalitions
        payoffs = self.game.values(whole, rows)
        self.evaluations = self.game.evaluations
        return payoffs

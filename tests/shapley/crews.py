"""What tests of workers share: a small network's game, settings that end soon, and a crew within this process."""

from __future__ import annotations

import pickle
import random

import torch
from torch import nn

from snv.shapley.estimate import ESTIMATORS, estimate
from snv.shapley.processes import pickled
from snv.shapley.questions import Answer, Question, answer
from snv.shapley.workers import Workers

SOON = {
    "exact": {"chunk": 32},
    "montecarlo": {"permutations": 6, "chunk": 9},
    "truncated": {"permutations": 6, "minibatch": 12, "chunk": 3},
    "tmab": {"permutations": 18, "burn_in": 6, "chunk": 3},
    "regression": {"coalitions": 60, "chunk": 5},
    "gradient": {"draws": 16},
    "hybrid": {"draws": 8, "pilot_coalitions": 6, "burn_in": 3, "rounds": 5, "fresh": 2, "minibatch": 12},
}


def network_game():
    """V(S) of nine neurons in two layers, on forty images."""
    from snv.valuation import neuron_game

    rng = torch.Generator().manual_seed(7)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 5, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(20, 3)
    )
    for parameter in model.parameters():
        parameter.data = torch.randn(parameter.shape, generator=rng) / 3
    return neuron_game(model, (torch.randn(40, 1, 7, 7, generator=rng), torch.arange(40) % 3))


def told(valuation) -> dict:
    """All that must be the same bit for bit: whatever a valuation says, but for how long it took."""
    return {name: part for name, part in vars(valuation).items() if name != "seconds"}


def assert_same(one, other) -> None:
    """Bit for bit, not-a-number included."""
    assert pickle.dumps(flat(told(one))) == pickle.dumps(flat(told(other)))


def flat(value):
    """Tensors as bytes."""
    if isinstance(value, torch.Tensor):
        return str(value.dtype), tuple(value.shape), value.contiguous().numpy().tobytes()
    if isinstance(value, dict):
        return {key: flat(part) for key, part in value.items()}
    return repr(value)


def alone(game) -> dict:
    """What this process finds by every estimator."""
    return {method: estimate(game(), method, seed=5, **SOON[method]) for method in ESTIMATORS}


class Here:
    """Workers that are no processes, and answer in an order that nobody can foresee."""

    def __init__(self, game, n: int) -> None:
        self.game, self.n, self.ahead = game, n, 2 * n
        self.has: dict[int, Question] = {}
        self.asked: list[Question] = []
        self.rng = random.Random(n)

    def room(self) -> int:
        return self.ahead - len(self.has)

    def submit(self, ticket: int, question: Question) -> None:
        assert self.room() > 0
        self.has[ticket] = pickle.loads(pickle.dumps(question))
        self.asked.append(question)

    def news(self) -> list[tuple[int, Answer]]:
        tickets = self.rng.sample(sorted(self.has), self.rng.randint(1, len(self.has)))
        return [(ticket, pickle.loads(pickle.dumps(answer(self.game, self.has.pop(ticket))))) for ticket in tickets]

    def close(self) -> None:
        """Nobody to end."""


def crew_here(workers: Workers, game) -> Here:
    """In place of `Workers.crew`: the game is made anew from what would be sent."""
    return Here(pickle.loads(pickled(game)), workers.n)

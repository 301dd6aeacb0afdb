"""Games whose Shapley values are known in closed form: the ground on which every estimator is tested."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float64
from torch import Tensor

from snv.seeding import generator
from snv.shapes import Gates, Indices
from snv.shapley.exact import shapley_of_table
from snv.shapley.game import Coalitions, Game, Payoffs
from snv.shapley.moments import Vector


class KnownGame(Game):
    """A game given by a formula, with its Shapley values in ``shapley``; every V(S) is counted."""

    shapley: Vector

    def values(self, coalitions: Coalitions, rows: Indices | None = None) -> Payoffs:  # noqa: ARG002 - one example
        self.evaluations += len(coalitions)
        return self.payoff(coalitions.double())

    def payoff(self, gates: Float64[Tensor, "p n"]) -> Payoffs:
        """V of each row of zeros and ones (of gates in [0, 1] if the game is differentiable)."""
        raise NotImplementedError

    def gradient(self, gates: Gates, rows: Indices | None = None) -> tuple[Float64[Tensor, "p n"], Payoffs]:
        if not self.differentiable:
            return super().gradient(gates, rows)
        self.evaluations += 3 * len(gates)
        leaf = gates.double().detach().requires_grad_()
        payoffs = self.payoff(leaf)
        (slope,) = torch.autograd.grad(payoffs.sum(), leaf)
        return slope, payoffs.detach()


class Additive(KnownGame):
    """V(S) = c + Σ_{i∈S} w_i, so φ_i = w_i: every marginal is the value."""

    differentiable = True

    def __init__(self, weights: Vector, constant: float = 0.0) -> None:
        self.n, self.weights, self.constant = len(weights), weights, constant
        self.shapley = weights.clone()

    def payoff(self, gates: Float64[Tensor, "p n"]) -> Payoffs:
        return self.constant + (gates * self.weights).sum(1)


class Quadratic(KnownGame):
    """V = c + wᵀm + ½mᵀQm with Q_ii = 0, so φ_i = w_i + ½Σ_j Q_ij."""

    differentiable = True

    def __init__(self, weights: Vector, pairs: Float64[Tensor, "n n"], constant: float = 0.0) -> None:
        self.n, self.weights, self.constant = len(weights), weights, constant
        self.pairs = (pairs + pairs.T).fill_diagonal_(0.0)
        self.shapley = weights + self.pairs.sum(1) / 2

    def payoff(self, gates: Float64[Tensor, "p n"]) -> Payoffs:
        return self.constant + (gates * self.weights).sum(1) + ((gates @ self.pairs) * gates).sum(1) / 2


class Unanimity(KnownGame):
    """V = Σ_T a_T Π_{i∈T} m_i, linear in every gate, so φ_i = Σ_{T∋i} a_T/|T|."""

    differentiable = True

    def __init__(self, n: int, terms: Sequence[tuple[Sequence[int], float]]) -> None:
        self.n, self.terms = n, terms
        self.shapley = torch.zeros(n, dtype=torch.float64)
        for members, amount in terms:
            self.shapley[list(members)] += amount / len(members)

    def payoff(self, gates: Float64[Tensor, "p n"]) -> Payoffs:
        products = [amount * gates[:, list(members)].prod(1) for members, amount in self.terms]
        return torch.stack(products).sum(0)


class Airport(KnownGame):
    """V(S) = max_{i∈S} c_i, with c_1 ≤ … ≤ c_n, so φ_i = Σ_{j≤i} (c_j − c_{j−1})/(n − j + 1)."""

    def __init__(self, costs: Vector) -> None:
        self.n, self.costs = len(costs), costs.sort().values
        steps = self.costs.diff(prepend=torch.zeros(1, dtype=torch.float64))
        self.shapley = (steps / torch.arange(self.n, 0, -1)).cumsum(0)

    def payoff(self, gates: Float64[Tensor, "p n"]) -> Payoffs:
        return (gates * self.costs).max(1).values


class WeightGame(KnownGame):
    """V(S) = f(Σ_{i∈S} w_i) with integer weights: φ_i by counting the coalitions of each size and weight."""

    def __init__(self, weights: Sequence[int], payoff: Callable[[Tensor], Tensor], *, smooth: bool) -> None:
        self.n, self.weights, self.of_weight, self.differentiable = len(weights), list(weights), payoff, smooth
        self.shapley = weight_game_values(self.weights, payoff)

    def payoff(self, gates: Float64[Tensor, "p n"]) -> Payoffs:
        return self.of_weight(gates @ torch.tensor(self.weights, dtype=torch.float64))


def weight_game_values(weights: Sequence[int], payoff: Callable[[Tensor], Tensor]) -> Vector:
    """φ_i = Σ_s 1/(n C(n−1,s)) Σ_w c_i(s,w)[f(w+w_i) − f(w)], c_i(s,w) coalitions without i of size s, weight w."""
    n, total = len(weights), sum(weights)
    height = payoff(torch.arange(total + 1, dtype=torch.float64))
    of_size = torch.tensor([1 / (n * math.comb(n - 1, s)) for s in range(n)], dtype=torch.float64)
    values = torch.empty(n, dtype=torch.float64)
    for i, own in enumerate(weights):
        count = torch.zeros(n, total + 1 - own, dtype=torch.float64)  # (size, weight)
        count[0, 0] = 1.0
        for other in (w for j, w in enumerate(weights) if j != i):
            joined = count[:-1, : total + 1 - own - other].clone()
            count[1:, other:] += joined
        gain = height[own:] - height[: total + 1 - own]
        values[i] = of_size @ count @ gain
    return values


class RandomGame(KnownGame):
    """Independent normal payoffs for all coalitions of up to 12 players: interactions of every order."""

    def __init__(self, n: int, seed: int) -> None:
        self.n = n
        self.table = torch.randn(2**n, generator=generator(seed, "random game"), dtype=torch.float64)
        self.shapley = shapley_of_table(self.table, n)

    def payoff(self, gates: Float64[Tensor, "p n"]) -> Payoffs:
        return self.table[(gates @ 2.0 ** torch.arange(self.n, dtype=torch.float64)).long()]


class MeanGame(KnownGame):
    """The mean of several games, one per example: minibatches of ``rows`` are allowed, and φ is the mean φ."""

    samples_examples = True

    def __init__(self, games: Sequence[KnownGame]) -> None:
        self.n, self.n_examples, self.games = games[0].n, len(games), list(games)
        self.differentiable = all(game.differentiable for game in games)
        self.shapley = torch.stack([game.shapley for game in games]).mean(0)

    def _chosen(self, rows: Indices | None) -> list[KnownGame]:
        return self.games if rows is None else [self.games[row] for row in rows.tolist()]

    def values(self, coalitions: Coalitions, rows: Indices | None = None) -> Payoffs:
        chosen = self._chosen(rows)
        self.evaluations += len(coalitions) * len(chosen) / self.n_examples
        return torch.stack([game.payoff(coalitions.double()) for game in chosen]).mean(0)

    def gradient(self, gates: Gates, rows: Indices | None = None) -> tuple[Float64[Tensor, "p n"], Payoffs]:
        chosen = self._chosen(rows)
        self.evaluations += 3 * len(gates) * len(chosen) / self.n_examples
        slopes, payoffs = zip(*(game.gradient(gates) for game in chosen), strict=True)
        return torch.stack(slopes).mean(0), torch.stack(payoffs).mean(0)


def additive(n: int = 8, seed: int = 0) -> Additive:
    """Random weights, the first of them 0 (a null player) and the next two equal."""
    weights = torch.randn(n, generator=generator(seed, "additive"), dtype=torch.float64)
    weights[0], weights[2] = 0.0, weights[1]
    return Additive(weights, constant=-1.5)


def quadratic(n: int = 8, seed: int = 0) -> Quadratic:
    """Random weights and pairs; player 0 is null, players 1 and 2 are interchangeable."""
    rng = generator(seed, "quadratic")
    weights = torch.randn(n, generator=rng, dtype=torch.float64)
    pairs = torch.randn(n, n, generator=rng, dtype=torch.float64).triu(1) / 2
    pairs = pairs + pairs.T
    weights[0], weights[2] = 0.0, weights[1]
    pairs[0, :] = pairs[:, 0] = 0.0
    pairs[2, 3:], pairs[3:, 2] = pairs[1, 3:].clone(), pairs[3:, 1].clone()
    return Quadratic(weights, pairs / 2, constant=2.0)


def unanimity(n: int = 8) -> Unanimity:
    """Terms of one to four members; player 0 is in none, players 1 and 2 are interchangeable."""
    terms = [((1, 2), 1.0), ((1, 2, 4), -0.7), ((3,), 0.4), ((3, 4, 5, 6), 1.3), ((1, 2, 5, 6), 0.5), ((n - 1,), -0.3)]
    return Unanimity(n, terms)


def airport(n: int = 8) -> Airport:
    """Costs 0, 1, 1, 2, …: player 0 lands for nothing, players 1 and 2 need the same runway."""
    return Airport(torch.tensor([0.0, 1.0, 1.0, *range(2, n - 1)], dtype=torch.float64))


def majority(n: int = 7) -> WeightGame:
    """V(S) = 1 if more than half of the players agree: φ_i = 1/n."""
    return WeightGame([1] * n, lambda weight: (weight > n / 2).double(), smooth=False)


def voting(weights: Sequence[int] = (0, 3, 3, 5, 7, 9, 11, 13)) -> WeightGame:
    """V(S) = 1 if the votes of S exceed half of all; player 0 has none."""
    return WeightGame(weights, lambda weight: (weight > sum(weights) / 2).double(), smooth=False)


def saturating(weights: Sequence[int] = (0, 2, 2, 3, 5, 7, 9, 12)) -> WeightGame:
    """V(S) = sigmoid of the weight: flat, then steep, then flat, as accuracy is in a network."""
    middle, width = 0.5 * sum(weights), 0.15 * sum(weights)
    return WeightGame(weights, lambda weight: torch.sigmoid((weight - middle) / width), smooth=True)


def examples(n: int = 8, n_examples: int = 12) -> MeanGame:
    """A mean over examples that value the players differently; all agree that player 0 is null, 1 and 2 are alike."""
    smooth = [saturating((0, 2, 2, *(1 + (3 * i + e) % 7 for i in range(n - 3)))) for e in range(n_examples // 2)]
    return MeanGame([*smooth, *(quadratic(n, seed) for seed in range(n_examples - len(smooth)))])


KNOWN_GAMES: dict[str, Callable[[], KnownGame]] = {
    "additive": additive,
    "quadratic": quadratic,
    "unanimity": unanimity,
    "airport": airport,
    "majority": majority,
    "voting": voting,
    "saturating": saturating,
    "random": lambda: RandomGame(8, seed=0),
    "examples": examples,
}

"""What the tests of several estimators share: repeated runs, their bias and coverage, and a wide game."""

from __future__ import annotations

import torch

from snv.shapley.estimate import estimate
from snv.shapley.intervals import normal_quantile
from snv.shapley.known_games import WeightGame

LEAN = {"draws": 8, "pilot_coalitions": 8, "burn_in": 2, "rounds": 2}
SETTINGS = {
    "exact": {},
    "montecarlo": {"permutations": 40},
    "truncated": {"permutations": 40},
    "tmab": {"permutations": 60, "eps": 0.01},
    "regression": {"coalitions": 400},
    "gradient": {"draws": 40},
    "hybrid": {**LEAN, "rounds": 8, "fresh": 3, "eps": 0.001},
}
FROZEN = torch.tensor([True, False, True, False, False, False, False, False])


def runs(make, method: str, settings: dict, seeds: int) -> list:
    game = make()
    return [estimate(game, method, seed=seed, **settings) for seed in range(seeds)]


def centres(results: list) -> torch.Tensor:
    return torch.stack([r.values if r.unbiased is None else r.unbiased for r in results])


def worst_z(found: torch.Tensor, truth: torch.Tensor) -> float:
    """The largest |z| of the mean over repeats; a player without spread must be right to rounding."""
    error, spread = found.mean(0) - truth, found.std(0) / len(found) ** 0.5
    fixed = spread < 1e-12
    torch.testing.assert_close(found.mean(0)[fixed], truth[fixed])
    return float((error / spread)[~fixed].abs().max()) if not fixed.all() else 0.0


def within(n: int) -> float:
    """The bound that the largest of n standard normal |z| exceeds in one of 400 cases: 3 for a single player."""
    return normal_quantile(1 - 0.00125 / n)


def wide() -> WeightGame:
    """Forty players of whom half are enough: most of a removal order has nothing left to lose."""
    return WeightGame([1 + i % 5 for i in range(40)], lambda w: torch.sigmoid((w - 80) / 6), smooth=True)


def violation(result, truth: torch.Tensor) -> float:
    """By how much the best rejected player exceeds the worst chosen one."""
    chosen = torch.zeros(len(truth), dtype=torch.bool)
    chosen[result.top_k()] = True
    return float(truth[~chosen].max() - truth[chosen].min())

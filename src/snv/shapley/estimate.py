"""All estimators by name, what each promises, and one function to call them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from snv.errors import UserError, unknown
from snv.shapes import Mask
from snv.shapley.bandit import TMABSettings, tmab
from snv.shapley.budget import UNLIMITED, Budget, Progress, Settings, settings_from
from snv.shapley.exact import ExactSettings, exact
from snv.shapley.game import Game
from snv.shapley.gradient import GradientSettings, gradient, need_gradient
from snv.shapley.hybrid import HybridSettings, hybrid
from snv.shapley.permutation import MonteCarloSettings, TruncatedSettings, montecarlo, truncated
from snv.shapley.regression import RegressionSettings, regression
from snv.shapley.result import Valuation
from snv.shapley.workers import Workers, sharing


@dataclass(frozen=True)
class Estimator:
    """An estimator and what it promises; the tests hold it to that."""

    function: Callable[..., Valuation]
    settings: type[Settings]
    promise: str
    unbiased: bool = False  # E of `values` (of `unbiased` for hybrid) is φ, and intervals cover φ
    needs_gradient: bool = False
    intervals: bool = True
    contest: bool = False  # spends its samples near the cut, so it takes candidates: who competes there
    certifies: bool = False  # may end with an ε-top-k that holds with the stated probability
    axioms: frozenset[str] = frozenset()  # that hold for every single result, not only on average


ESTIMATORS: dict[str, Estimator] = {
    "exact": Estimator(
        exact,
        ExactSettings,
        "the values themselves, up to 16 players",
        unbiased=True,
        certifies=True,
        axioms=frozenset({"efficiency", "null player", "symmetry", "linearity"}),
    ),
    "montecarlo": Estimator(
        montecarlo,
        MonteCarloSettings,
        "unbiased, t-intervals; n evaluations per draw",
        unbiased=True,
        axioms=frozenset({"efficiency", "null player", "linearity"}),
    ),
    "truncated": Estimator(
        truncated,
        TruncatedSettings,
        "unbiased while proceed > 0, t-intervals; fewer evaluations where V saturates",
        unbiased=True,
        axioms=frozenset({"null player"}),
    ),
    "tmab": Estimator(
        tmab,
        TMABSettings,
        "a certified ε-top-k; values rank, those dropped early keep the luck that dropped them",
        contest=True,
        certifies=True,
        axioms=frozenset({"null player"}),
    ),
    "regression": Estimator(
        regression,
        RegressionSettings,
        "consistent, Σφ̂ exact; strong where V is nearly additive, up to 2,000 players",
        axioms=frozenset({"efficiency", "linearity"}),
    ),
    "gradient": Estimator(
        gradient,
        GradientSettings,
        "cost independent of n; biased by the curvature in a single gate, which efficiency_ratio hints at",
        needs_gradient=True,
        axioms=frozenset({"null player", "linearity"}),
    ),
    "hybrid": Estimator(
        hybrid,
        HybridSettings,
        "values rank best; `unbiased` with t-intervals for the players near the cut",
        unbiased=True,
        needs_gradient=True,
        contest=True,
        certifies=True,
    ),
}


def estimator(method: str) -> Estimator:
    """The estimator of that name."""
    if method not in ESTIMATORS:
        raise unknown("estimator", method, ESTIMATORS)
    return ESTIMATORS[method]


def forecast(game: Game, method: str = "gradient", **settings: Any) -> float:
    """The evaluations `estimate` would spend at most, to be shown before it starts."""
    return settings_from(estimator(method).settings, settings).forecast(game)


def estimate(
    game: Game,
    method: str = "gradient",
    *,
    seed: int = 0,
    budget: Budget = UNLIMITED,
    progress: Progress | None = None,
    resume: Valuation | None = None,
    candidates: Mask | None = None,
    workers: int | Workers | None = None,
    **settings: Any,
) -> Valuation:
    """The value of every player, by the named method; ``settings`` are those of its settings class.

    ``candidates`` are the players that compete for the k places (default: everyone), for methods that look at the cut.
    ``workers`` evaluate the game in place of this process: the same values in less time.
    """
    chosen = estimator(method)
    own = settings_from(chosen.settings, settings)
    if candidates is not None and not chosen.contest:
        others = " or ".join(name for name, other in ESTIMATORS.items() if other.contest)
        raise UserError(f"{method} values all players alike, whoever competes; leave candidates out, or use {others}.")
    if chosen.needs_gradient:
        need_gradient(game, method)
    with sharing(game, workers) as shared:
        return chosen.function(
            shared, own, seed=seed, budget=budget, progress=progress, resume=resume, candidates=candidates
        )

"""The paper's three estimators and ours on one task of one run: cost, agreement with a long run, spread over seeds."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Unpack

import numpy as np
import torch
from torch import Tensor

from snv.errors import UserError
from snv.report.analyses.finding import Finding, Shown, finite, number
from snv.runs import Own, Progress, load_record, moment_after
from snv.seeding import derived_seed
from snv.shapes import Values
from snv.shapley import Budget, Game, Valuation, estimate, spearman, top_k_precision

COMPARED = {
    "(a) Monte Carlo": "montecarlo",
    "(b) + truncation": "truncated",
    "(c) + bandit (TMAB)": "tmab",
    "gradient": "gradient",
    "hybrid": "hybrid",
}
"""As the paper's table calls them, and ours."""


@dataclass(frozen=True)
class Measured:
    """One estimator, over several seeds: means, and standard deviations (n − 1)."""

    label: str
    estimator: str
    forward_passes: float  # of single images
    seconds: float
    rank_agreement: float | None  # Spearman's correlation with the reference; None: all values are equal
    rank_deviation: float | None
    top_agreement: float  # share of its top k that is in the reference's
    top_deviation: float
    value_deviation: float  # of a neuron's value over seeds, mean over neurons
    relative_deviation: float  # the same over the standard deviation of the reference's values
    stopped: tuple[str, ...]  # why the estimates ended, each reason once


@dataclass(frozen=True)
class Ablation(Finding):
    """All of them, and what they are compared with."""

    name: ClassVar[str] = "estimators"
    task: int
    neurons: int
    images: int
    payoff: str
    k: int
    seeds: int
    permutations: int
    reference_permutations: float  # whole orders the reference is the mean of
    reference_passes: float
    reference_agreement: float | None  # Spearman's correlation of the reference's two halves
    estimators: tuple[Measured, ...]

    def shown(self) -> Shown:
        columns = (
            "estimator",
            "forward passes",
            "seconds",
            "Spearman",
            f"top {self.k}",
            "deviation of values",
            "ended",
        )
        rows = tuple(
            (
                found.label,
                number(found.forward_passes, 0),
                number(found.seconds, 2),
                f"{number(found.rank_agreement)} ± {number(found.rank_deviation)}",
                f"{number(found.top_agreement)} ± {number(found.top_deviation)}",
                f"{found.value_deviation:.2g} ({100 * found.relative_deviation:.0f} %)",
                "; ".join(found.stopped),
            )
            for found in self.estimators
        )
        notes = (
            f"Mean ± deviation over {self.seeds} seeds; compared with Monte Carlo over "
            f"{self.reference_permutations:,.0f} whole orders of another seed ({self.reference_passes:,.0f} forward "
            f"passes), whose two halves agree to {number(self.reference_agreement)}.",
            "Deviation of values: of one neuron over seeds, mean over neurons, and as a share of the spread of all.",
        )
        where = f"task {self.task} of {self.method} · {self.scenario.upper()} · seed {self.seed}"
        return Shown(f"estimators on {where}: {self.neurons:,} neurons", columns, rows, notes)


def estimators(
    path: Path,
    *,
    task: int = 1,
    after: int | None = None,
    seeds: int = 3,
    permutations: int = 8,
    reference: int = 64,
    payoff: str = "loss",
    k: float | int = 0.1,
    max_seconds: float = 20.0,
    data_dir: Path | None = None,
    progress: Progress = lambda *_: None,
    **own: Unpack[Own],
) -> Ablation:
    """Every estimator values the same neurons on the same images, as often as there are seeds.

    Monte Carlo, truncation and bandit draw ``permutations`` orders, gradient and hybrid their defaults; no estimate
    takes longer than ``max_seconds``, the reference three times as long, so the whole takes minutes.
    """
    _check(seeds, permutations, reference)
    config = load_record(path).config
    game = moment_after(path, task, after, data_dir, progress, **own).game(payoff)
    seed = derived_seed(config["seed"], "estimators")
    long = Budget(max_seconds=3 * max_seconds)
    truth = estimate(game, "montecarlo", seed=seed, budget=long, progress=progress, k=k, permutations=reference)
    found = tuple(
        measured(game, label, method, truth, [seed + 1 + i for i in range(seeds)], max_seconds, permutations, progress)
        for label, method in COMPARED.items()
    )
    return Ablation(
        config["method"],
        config["scenario"],
        config["seed"],
        task,
        game.n,
        game.n_examples,
        payoff,
        truth.k,
        seeds,
        permutations,
        float(truth.counts.min()),
        truth.evaluations * game.n_examples,
        _agreement_of_halves(truth),
        found,
    )


def _check(seeds: int, permutations: int, reference: int) -> None:
    """Refuse what has no deviation, or nothing to be compared with."""
    if seeds < 2:
        raise UserError(f"Deviations need at least 2 seeds; got seeds={seeds}. Try 3.")
    if permutations < 2 or reference <= permutations:
        raise UserError(
            f"The bandit needs 2 permutations and the reference more than are compared with it; got "
            f"permutations={permutations} and reference={reference}. Try 8 and 64."
        )


def measured(
    game: Game,
    label: str,
    method: str,
    truth: Valuation,
    seeds: Sequence[int],
    max_seconds: float,
    permutations: int,
    progress: Progress,
) -> Measured:
    """One estimator with each seed."""
    found, seconds = [], []
    for seed in seeds:
        started = time.perf_counter()
        budget = Budget(max_seconds=max_seconds)
        settings = settings_of(method, permutations)
        found.append(estimate(game, method, seed=seed, budget=budget, progress=progress, k=truth.k, **settings))
        seconds.append(time.perf_counter() - started)
    ranks = [spearman(_known(one.values), truth.values) for one in found]
    tops = [top_k_precision(_known(one.values), truth.values, truth.k) for one in found]
    deviation = deviation_over_seeds([_known(one.values) for one in found])
    return Measured(
        label,
        method,
        statistics.fmean(one.evaluations for one in found) * game.n_examples,
        statistics.fmean(seconds),
        finite(float(np.mean(ranks))),
        finite(float(np.std(ranks, ddof=1))),
        statistics.fmean(tops),
        statistics.stdev(tops),
        deviation,
        deviation / float(truth.values.std()),
        tuple(dict.fromkeys(one.stopped for one in found)),
    )


def settings_of(method: str, permutations: int) -> dict[str, Any]:
    """The draws of those that draw orders; the bandit first looks after half of them."""
    if method not in ("montecarlo", "truncated", "tmab"):
        return {}
    return {"permutations": permutations} | ({"burn_in": max(2, permutations // 2)} if method == "tmab" else {})


def deviation_over_seeds(values: Sequence[Values]) -> float:
    """The standard deviation (n − 1) of a neuron's value, mean over neurons."""
    return float(torch.stack([one.double() for one in values]).std(0).mean())


def _known(values: Tensor) -> Tensor:
    """A value nobody observed is no reason to prefer a neuron."""
    return values.nan_to_num(nan=0.0)


def _agreement_of_halves(truth: Valuation) -> float | None:
    return None if truth.halves is None else finite(spearman(truth.halves[0], truth.halves[1]))

"""Cooperative games and the estimators of their Shapley values; nothing here knows what a network is."""

from __future__ import annotations

from snv.shapley.agreement import Number, how_many, relative_error, spearman, top_k_precision
from snv.shapley.bandit import TMABSettings, as_printed
from snv.shapley.budget import Budget, Progress
from snv.shapley.estimate import ESTIMATORS, estimate, estimator, forecast
from snv.shapley.exact import MOST_PLAYERS
from snv.shapley.game import Coalitions, Game, Payoffs
from snv.shapley.gradient import GradientSettings, gates_of_pair
from snv.shapley.hybrid import coalitions_by_size
from snv.shapley.known_games import Airport, KnownGame, Quadratic, Unanimity, saturating, voting
from snv.shapley.plots import save_plots
from snv.shapley.questions import WorkerError
from snv.shapley.result import Account, Valuation, account
from snv.shapley.workers import Workers, as_threaded_as, workers_of

__all__ = [
    "ESTIMATORS",
    "MOST_PLAYERS",
    "Account",
    "Airport",
    "Budget",
    "Coalitions",
    "Game",
    "GradientSettings",
    "KnownGame",
    "Number",
    "Payoffs",
    "Progress",
    "Quadratic",
    "TMABSettings",
    "Unanimity",
    "Valuation",
    "WorkerError",
    "Workers",
    "account",
    "as_printed",
    "as_threaded_as",
    "coalitions_by_size",
    "estimate",
    "estimator",
    "forecast",
    "gates_of_pair",
    "how_many",
    "relative_error",
    "saturating",
    "save_plots",
    "spearman",
    "top_k_precision",
    "voting",
    "workers_of",
]

"""What the neurons of a task are worth, by the estimator or score that SNV's settings name."""

from __future__ import annotations

import logging
from typing import Any, TypedDict

from snv.data import Task
from snv.errors import UserError
from snv.learners.snv_config import IN_RUN, SNVConfig
from snv.neurons import Forward
from snv.shapes import Mask, Values
from snv.shapley import ESTIMATORS, MOST_PLAYERS, Account, Progress, account, estimate
from snv.subnetworks import Specialists
from snv.training import Setting
from snv.valuation import SCORES, CarriedValues, NeuronGame

log = logging.getLogger(__name__)


class Contest(TypedDict):
    """The cut that selection will make: how many places there are, and which neurons compete for them."""

    k: int
    candidates: Mask | None  # None: all


def game_of(task: Task, logits: Forward, specialists: Specialists, setting: Setting, config: SNVConfig) -> NeuronGame:
    """V(S) on the task's validation images, by ``logits`` within its own head."""
    images, labels = setting.examples(task.val), task.val.labels.to(setting.device) - task.block.start
    network, neurons, shared = specialists.network, specialists.neurons, shares_prefixes(config)
    silent = config.others == "silent"
    return NeuronGame(network, images, labels, neurons, forward=logits, share_prefixes=shared, silent=silent)


def shares_prefixes(config: SNVConfig) -> bool:
    """Whether the estimator evaluates many coalitions, so that what they have in common is worth keeping."""
    return config.estimator in ESTIMATORS and config.estimator != "gradient"


def contest_of(specialists: Specialists, config: SNVConfig) -> Contest:
    """Free neurons compete for the places of the budget, since frozen ones come along, unless those count too."""
    frozen, budget = specialists.frozen, config.budget(specialists.neurons)
    asked, free = budget.asked(int(frozen.sum())), ~frozen
    if config.reuse == "counted" or not bool(free.any()):
        return {"k": min(asked, budget.n), "candidates": None}
    return {"k": min(asked, int(free.sum())), "candidates": free}


def check_players(config: SNVConfig, n: int) -> None:
    if config.estimator == "exact" and n > MOST_PLAYERS:
        raise UserError(
            f"learner.estimator=exact values up to {MOST_PLAYERS} neurons; this network has {n}. "
            "Use gradient, montecarlo or hybrid."
        )


def estimator_settings(config: SNVConfig) -> dict[str, Any]:
    """Draws as the settings ask or as a task needs them, and τ and α if they are given."""
    settings: dict[str, Any] = {}
    match config.estimator:
        case "gradient":
            settings = {"draws": config.draws or 24, "minibatch": 16}  # more pairs of gates beat more images
        case "hybrid":
            settings = {"draws": config.draws or 24}
        case "montecarlo" | "truncated" | "tmab":
            settings = {"permutations": config.draws or 32}
    if config.estimator == "tmab":
        settings["burn_in"] = max(2, min(30, settings["permutations"] // 2))
    given = {"floor": config.floor, "confidence": config.confidence}
    return settings | {name: value for name, value in given.items() if value is not None}


def values_of(
    game: NeuronGame, config: SNVConfig, contest: Contest, carried: CarriedValues, seed: int, progress: Progress
) -> tuple[Values, Account]:
    """φ of every neuron, and what the valuation says of itself."""

    def tell(what: str, done: float, total: float) -> None:
        progress(f"value: {what}", done, total)

    name = config.estimator
    if name == IN_RUN:
        why = "Not certified: values carried while training hold for the network of that time."
        end = f"{carried.pairs} pairs of gradients on training batches"
        return carried.values, account(name, carried.values, (game.everyone, game.no_one), game.evaluations, end, why)
    if name in SCORES:
        scores, why = SCORES[name](game, seed), "Not certified: a simple score is no Shapley value."
        return scores, account(name, scores, None, game.evaluations, "every neuron scored", why)
    settings = estimator_settings(config)
    if not ESTIMATORS[name].contest:
        valuation = estimate(game, name, seed=seed, progress=tell, **settings)
    else:
        valuation = estimate(game, name, seed=seed, progress=tell, **contest, **settings)
        log.info("%s Every layer's own share of the budget is a further rule on top.", valuation.certificate)
    return valuation.values, valuation.account

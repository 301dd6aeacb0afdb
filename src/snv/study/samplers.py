"""In which order settings are tried: the whole grid side by side, or one after the other as Optuna proposes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from snv.errors import UserError, unknown
from snv.seeding import derived_seed
from snv.study.rungs import goes_on
from snv.study.space import Settings, Space
from snv.study.trial import Trial

if TYPE_CHECKING:
    import optuna

SAMPLERS = ("grid", "optuna")

PROPOSALS = 20
"""Of Optuna, unless another number is asked for."""

Advance = Callable[[Sequence[Trial], int | None], None]
"""Brings trials to so many epochs, or to their end."""

GiveUp = Callable[[Trial, int], None]


def check_sampler(sampler: str, trials: int | None) -> None:
    """Find out now whether a search can be made this way."""
    if sampler not in SAMPLERS:
        raise unknown("sampler", sampler, SAMPLERS)
    if trials is not None and trials < 1:
        raise UserError(f"A search has at least one trial; got {trials}.")
    if sampler == "optuna":
        _optuna()


def search_grid(trials: Sequence[Trial], rungs: Sequence[int], advance: Advance, give_up: GiveUp) -> None:
    """All trials to the first rung, those that go on to the next, the rest of them to the end."""
    going = list(trials)
    for rung in rungs:
        advance(going, rung)
        going = [trial for trial in going if trial.state != "failed"]
        ranks = [trial.rank(rung) for trial in going]
        for trial, rank in zip(going, ranks, strict=True):
            if trial.number > 0 and not goes_on(rank, ranks):
                give_up(trial, rung)
        going = [trial for trial in going if trial.state != "given up"]
    advance(going, None)


def search_optuna(
    space: Space,
    first: Settings,
    n: int,
    seed: int,
    begin: Callable[[int, Settings], Trial],
    rungs: Sequence[int],
    advance: Advance,
    give_up: GiveUp,
) -> list[Trial]:
    """``n`` proposals of a tree-structured Parzen estimator, after ``first``; one that was made before costs nothing.

    A proposal is given up at a rung where it is below the median of all before it that got there. As everything here
    follows from the seed and the results so far, a search that was stopped proposes the same again.
    """
    optuna = _optuna()
    estimator = optuna.samplers.TPESampler(seed=derived_seed(seed, "optuna") % 2**32)
    study = optuna.create_study(direction="maximize", sampler=estimator)
    values = {name: list(dict.fromkeys([first[name], *known])) for name, known in space.values.items()}
    places = {name: optuna.distributions.CategoricalDistribution(range(len(v))) for name, v in values.items()}
    study.enqueue_trial(dict.fromkeys(values, 0))
    trials: list[Trial] = []
    for _ in range(n):
        asked = study.ask(places)
        settings = {name: values[name][place] for name, place in asked.params.items()}
        trial = next((known for known in trials if known.settings == settings), None)
        if trial is None:
            trials.append(trial := begin(len(trials), settings))
            _climb(trial, trials, rungs, advance, give_up)
        _tell(study, asked, trial, rungs)
    return trials


def _climb(trial: Trial, trials: Sequence[Trial], rungs: Sequence[int], advance: Advance, give_up: GiveUp) -> None:
    """One trial from rung to rung, as far as it gets."""
    for rung in rungs:
        advance([trial], rung)
        if trial.state == "failed":
            return
        there = [other.rank(rung) for other in trials if _got_to(other, rung)]
        if trial.number > 0 and not goes_on(trial.rank(rung), there):
            give_up(trial, rung)
            return
    advance([trial], None)


def _got_to(trial: Trial, rung: int) -> bool:
    return trial.state != "failed" and (trial.given_up is None or trial.given_up >= rung)


def _tell(study: optuna.Study, asked: optuna.trial.Trial, trial: Trial, rungs: Sequence[int]) -> None:
    """What a trial came to, also if it was given up or failed."""
    from optuna.trial import TrialState

    for rung in rungs:
        if trial.state != "failed" and _got_to(trial, rung):
            asked.report(trial.standing(rung), rung)
    if trial.score is not None:
        study.tell(asked, trial.score)
    else:
        study.tell(asked, state=TrialState.PRUNED if trial.state == "given up" else TrialState.FAIL)


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise UserError("--sampler optuna needs Optuna. Run pip install 'snv[tune]', or use --sampler grid.") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna

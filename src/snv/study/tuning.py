"""The ledger of a search: what was searched on which images, what every trial came to, what was chosen."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from snv.config import RunConfig, changed, flat
from snv.data import TaskStream
from snv.errors import UserError
from snv.study.rungs import RULE
from snv.study.space import Settings, Space
from snv.study.trial import Trial

SAW = {
    "first-task": "training and validation images of the first task; no other task and no test image was in memory",
    "halves": "training and validation images of the tasks with the first half of the classes; neither the other half "
    "nor any test image was in memory",
}


@dataclass(frozen=True)
class Tuning:
    """Everything there is to know of a search; `as_json` is what ``ledger.json`` holds."""

    config: RunConfig  # the run whose settings were searched
    protocol: str
    sampler: str
    seeds: tuple[int, ...]
    space: Space
    rungs: tuple[int, ...]
    images: dict[str, Any]
    trials: tuple[Trial, ...]

    @property
    def best(self) -> Trial:
        """The trial with the highest mean accuracy on validation images; of equal ones the first."""
        finished = [trial for trial in self.trials if trial.score is not None]
        if not finished:
            raise UserError(f"No trial came to its end. The first said: {self.trials[0].reason}")
        return max(finished, key=lambda trial: (trial.score or 0.0, -trial.number))

    @property
    def chosen(self) -> Settings:
        """The settings of the best trial."""
        return self.best.settings

    @property
    def reported(self) -> Settings:
        """The settings chosen and, if the search used up half of the classes, which half is left to report on."""
        return self.chosen | ({"data.half": "second"} if self.protocol == "halves" else {})

    @property
    def tuned(self) -> RunConfig:
        """The run with the settings chosen, as it is to be reported."""
        return changed(self.config, self.reported)

    def kept(self, name: str) -> object:
        """The value of a setting that was not searched."""
        return flat(self.config.as_dict())[name]

    @property
    def spent(self) -> dict[str, float]:
        """What the whole search took."""
        return {
            "trials": len(self.trials),
            "epochs": sum(trial.epochs for trial in self.trials),
            **{name: sum(trial.total(name) for trial in self.trials) for name in ("images", "macs", "seconds")},
        }

    def as_json(self) -> dict[str, Any]:
        """One object for machines."""
        return {
            "method": self.config.method,
            "scenario": self.config.scenario,
            "data": self.config.data.name,
            "protocol": self.protocol,
            "saw": SAW[self.protocol],
            "images": self.images,
            "sampler": self.sampler,
            "seeds": list(self.seeds),
            "searched": {name: list(values) for name, values in self.space.values.items()},
            "grid": self.space.size,
            "left_out": {name: {"stays": self.kept(name), "why": why} for name, why in self.space.left_out.items()},
            "rule": RULE,
            "rungs": list(self.rungs),
            "spent": self.spent,
            "before": self.trials[0].settings,
            "chosen": self.chosen,
            "accuracy_before": self.trials[0].score,
            "accuracy": self.best.score,
            "trials": [trial_as_json(trial) for trial in self.trials],
            "config": self.config.as_dict(),
        }


def ranked(trials: Sequence[Trial]) -> list[Trial]:
    """The best first, then what was given up, then what failed."""
    order = {"finished": 0, "given up": 1}
    return sorted(trials, key=lambda t: (order.get(t.state, 2), -(t.given_up or 0), -(reached(t) or 0.0), t.number))


def reached(trial: Trial) -> float | None:
    """The score of a trial, or how it stood when it was given up."""
    return trial.standing(trial.given_up) if trial.given_up is not None else trial.score


def trial_as_json(trial: Trial) -> dict[str, Any]:
    """A trial with the outcome of every seed."""
    return {
        "number": trial.number,
        "settings": trial.settings,
        "state": trial.state,
        "score": trial.score,
        "given_up_after": trial.given_up,
        "stood_at": reached(trial),
        "reason": trial.reason or None,
        "seeds": {str(seed): dataclasses.asdict(outcome) for seed, outcome in trial.outcomes.items()},
    }


def images_in(stream: TaskStream) -> dict[str, Any]:
    """How many images of what a search was given."""
    tasks = [stream.task(t) for t in range(len(stream))]
    counts = {"tasks": len(tasks), "classes": stream.blocks[-1].stop}
    counts |= {"training images": sum(len(task.train) for task in tasks)}
    return counts | {"validation images": sum(len(task.val) for task in tasks)}

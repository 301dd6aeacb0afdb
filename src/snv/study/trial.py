"""One trial: settings, learned with every seed; what becomes of it is kept as one small file per seed."""

from __future__ import annotations

import dataclasses
import shutil
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from snv.config import RunConfig, changed
from snv.data import TaskStream
from snv.errors import DivergedError, UserError
from snv.files import read_json, write_sealed
from snv.runs import Given, Progress, load_log, load_record, prepare
from snv.study.hands import do_all
from snv.study.rungs import Rank, best_so_far
from snv.study.space import Settings
from snv.study.workers import News, Work, Workers

State = Literal["waiting", "begun", "finished", "given up", "failed"]


@dataclass(frozen=True)
class Outcome:
    """What one seed of a trial came to, so far."""

    state: State = "waiting"
    curve: tuple[float, ...] = ()  # validation accuracy in percent after every epoch
    losses: tuple[float, ...] = ()  # on validation images, likewise
    score: float | None = None  # of a finished trial: mean accuracy over its tasks, on validation images
    images: int = 0  # seen in training, every epoch anew
    macs: float = 0.0  # multiply-accumulates
    seconds: float = 0.0
    reason: str = ""  # why it failed


@dataclass
class Trial:
    """Settings with what became of them, seed by seed."""

    number: int
    settings: Settings
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    given_up: int | None = None  # after how many epochs

    @property
    def state(self) -> State:
        """What is true of the whole trial."""
        if self.given_up is not None:
            return "given up"
        states = {outcome.state for outcome in self.outcomes.values()}
        return next(state for state in ("failed", "waiting", "begun", "finished") if state in states)

    @property
    def reason(self) -> str:
        return next((outcome.reason for outcome in self.outcomes.values() if outcome.reason), "")

    @property
    def score(self) -> float | None:
        """The mean over seeds of a trial that was brought to its end."""
        scores = [outcome.score for outcome in self.outcomes.values() if outcome.score is not None]
        return statistics.mean(scores) if self.state == "finished" and scores else None

    def rank(self, epochs: int) -> Rank:
        """How good the first epochs were, the mean over seeds."""
        best = [best_so_far(outcome.curve, outcome.losses, epochs) for outcome in self.outcomes.values()]
        accuracies, losses = zip(*best, strict=True)
        return statistics.mean(accuracies), statistics.mean(losses)

    def standing(self, epochs: int) -> float:
        """The best validation accuracy of the first epochs, the mean over seeds."""
        return self.rank(epochs)[0]

    def total(self, name: str) -> float:
        """The sum over seeds of one of the outcomes' costs."""
        return float(sum(getattr(outcome, name) for outcome in self.outcomes.values()))

    @property
    def epochs(self) -> int:
        """Trained in all."""
        return sum(len(outcome.curve) for outcome in self.outcomes.values())


@dataclass(frozen=True)
class Desk:
    """Where trials are learned: the run they vary, the images they may see, the folder for what is kept."""

    config: RunConfig
    stream: TaskStream
    folder: Path
    workers: Workers | None = None  # None: everything is done in this process

    def trial(self, number: int, settings: Settings, seeds: tuple[int, ...]) -> Trial:
        """A trial as far as it is known: what was done before is not done again."""
        return Trial(number, settings, {seed: self._kept(number, seed) for seed in seeds})

    def check(self, settings: Settings) -> None:
        """Find out now whether the method can be made with these settings."""
        try:
            prepare(self._config(settings, self.config.seed), lambda *_: None, handed=Given(stream=self.stream))
        except UserError as error:
            raise UserError(f"{as_words(settings)}: {error}") from None

    def advance(self, trials: Sequence[Trial], until: int | None, progress: Progress = lambda *_: None) -> None:
        """Bring every seed of these trials to so many epochs, or to its end."""
        wanted = {
            f"{trial.number:03d}-seed{seed}": (trial, seed)
            for trial in trials
            for seed, outcome in trial.outcomes.items()
            if not _has_reached(outcome, until)
        }
        works = [self._work(key, trial, seed, until) for key, (trial, seed) in wanted.items()]

        def ended(news: News) -> None:
            trial, seed = wanted[news.key]
            trial.outcomes[seed] = _outcome(self._directory(trial.number, seed), news)
            write_sealed(self._file(trial.number, seed), dataclasses.asdict(trial.outcomes[seed]))
            if trial.outcomes[seed].state != "begun":
                self._clear(trial.number, seed)

        do_all(works, self.workers, ended, progress)

    def give_up(self, trial: Trial, epochs: int) -> None:
        """What was begun of a trial is of no use any more."""
        trial.given_up = epochs
        for seed in trial.outcomes:
            self._clear(trial.number, seed)

    def _work(self, key: str, trial: Trial, seed: int, until: int | None) -> Work:
        config, directory = self._config(trial.settings, seed), self._directory(trial.number, seed)
        return Work(key, config, directory, stream=self.stream, pause_after=until)

    def _config(self, settings: Settings, seed: int) -> RunConfig:
        return dataclasses.replace(changed(self.config, settings), seed=seed)

    def _kept(self, number: int, seed: int) -> Outcome:
        file = self._file(number, seed)
        if not file.exists():
            return Outcome()
        kept = read_json(file)
        return Outcome(**kept | {name: tuple(kept[name]) for name in ("curve", "losses")})

    def _clear(self, number: int, seed: int) -> None:
        shutil.rmtree(self._directory(number, seed), ignore_errors=True)

    def _file(self, number: int, seed: int) -> Path:
        return self.folder / "trials" / f"{number:03d}-seed{seed}.json"

    def _directory(self, number: int, seed: int) -> Path:
        return self.folder / "runs" / f"{number:03d}-seed{seed}"


def _has_reached(outcome: Outcome, until: int | None) -> bool:
    ended = outcome.state in ("finished", "failed")
    return ended or (until is not None and len(outcome.curve) >= until)


def _outcome(directory: Path, news: News) -> Outcome:
    """What has become of a run, as far as its directory holds it; only training that diverges fails a trial."""
    failed = isinstance(news.error, DivergedError)
    if news.kind != "done" and not failed:
        raise news.error or RuntimeError(news.details or news.text)
    record, log = load_record(directory), load_log(directory)
    finished = record.status == "finished"
    return Outcome(
        state="failed" if failed else "finished" if finished else "begun",
        curve=tuple(entry["val_accuracy"] for entry in log),
        losses=tuple(entry["val_loss"] for entry in log if entry["val_loss"] is not None),
        score=record.metrics["ACC"] if finished else None,
        images=sum(entry["images"] for entry in log),
        macs=sum(record.cost["macs"].values()),
        seconds=sum(record.cost["seconds"].values()),
        reason=news.text if failed else "",
    )


def as_words(settings: Settings) -> str:
    """``train.lr=0.01 learner.capacity=0.3``."""
    return " ".join(f"{name}={value}" for name, value in settings.items())

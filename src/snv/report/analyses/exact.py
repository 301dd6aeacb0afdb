"""How far enumeration goes: exact values of a few neurons, timed, and what all of them would take."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Unpack

import torch

from snv.errors import UserError
from snv.report.analyses.finding import Finding, Shown, number
from snv.report.analyses.players import Among
from snv.runs import Own, Progress, load_record, moment_after
from snv.seeding import generator
from snv.shapley import MOST_PLAYERS, Budget, Game, estimate

PLAYERS = (4, 8, 12, 16, 20)
YEAR = 365.25 * 86400


@dataclass(frozen=True)
class Enumeration:
    """Exact values of so many neurons."""

    players: int
    coalitions: int  # 2^n
    looked_at: int
    seconds: float | None  # of all coalitions; None: not tried, or not finished
    ended: str


@dataclass(frozen=True)
class Exact(Finding):
    """Enumerations of growing size, and the forecast for the whole network."""

    name: ClassVar[str] = "exact"
    task: int
    neurons: int
    images: int
    sizes: tuple[Enumeration, ...]
    seconds_per_coalition: float
    log10_years: float  # for all neurons, at that rate

    def shown(self) -> Shown:
        rows = tuple((str(one.players), f"{one.coalitions:,}", number(one.seconds, 3), one.ended) for one in self.sizes)
        note = (
            f"All {self.neurons:,} neurons of this network make 2^{self.neurons:,} coalitions: at the "
            f"{1000 * self.seconds_per_coalition:.3g} ms a coalition took here, 10^{self.log10_years:,.0f} years."
        )
        where = f"task {self.task} of {self.method} · {self.scenario.upper()} · seed {self.seed}"
        return Shown(f"exact values of n neurons, {where}", ("n", "coalitions", "seconds", "ended"), rows, (note,))


def exact(
    path: Path,
    *,
    task: int = 1,
    players: Iterable[int] = PLAYERS,
    max_seconds: float = 120.0,
    data_dir: Path | None = None,
    progress: Progress = lambda *_: None,
    **own: Unpack[Own],
) -> Exact:
    """Shapley values by enumeration of neurons drawn at random, while all others take part."""
    asked = sorted(int(n) for n in players)
    if not asked or asked[0] < 2:
        raise UserError(f"players are numbers of neurons, at least 2 each; got {asked}. Try [4, 8, 12, 16].")
    config = load_record(path).config
    game = moment_after(path, task, None, data_dir, progress, **own).game()
    order = torch.randperm(game.n, generator=generator(config["seed"], "exact"))
    sizes = [enumerated(Among(game, order[:n].sort().values), n, max_seconds, progress) for n in asked]
    done = [one for one in sizes if one.seconds is not None]
    if not done:
        raise UserError(f"No enumeration finished within {max_seconds:g} seconds. Allow more, or fewer players.")
    rate = (done[-1].seconds or 0.0) / done[-1].coalitions
    years = game.n * math.log10(2) + math.log10(rate / YEAR)
    who = (config["method"], config["scenario"], config["seed"])
    return Exact(*who, task, game.n, game.n_examples, tuple(sizes), rate, years)


def enumerated(game: Game, n: int, max_seconds: float, progress: Progress) -> Enumeration:
    """One size: the time of all its coalitions, or why they were not all looked at."""
    if n > game.n:
        return Enumeration(n, 2**n, 0, None, f"the network has {game.n} neurons")
    if n > MOST_PLAYERS:
        return Enumeration(n, 2**n, 0, None, f"refused: exact takes up to {MOST_PLAYERS} players")
    started = time.perf_counter()
    found = estimate(game, "exact", k=1, budget=Budget(max_seconds=max_seconds), progress=progress)
    seconds = time.perf_counter() - started
    looked_at = len(found.state["payoffs"])
    return Enumeration(n, 2**n, looked_at, seconds if found.certified else None, found.stopped)

"""Choose settings of a method on images that no result is reported on, and write down how."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from snv.config import RunConfig, flat
from snv.errors import Interrupted, UserError
from snv.files import read_json, write_json, write_text
from snv.runs import FREE_TO_CHANGE, Progress, make_directory
from snv.study.local import LocalWorkers
from snv.study.protocols import stream_for
from snv.study.rungs import rungs
from snv.study.samplers import PROPOSALS, check_sampler, search_grid, search_optuna
from snv.study.space import Settings, Space, candidates, current, space_of
from snv.study.trial import Desk, Trial
from snv.study.tuning import Tuning, images_in
from snv.study.tuning_text import as_page, as_toml
from snv.study.workers import Workers

REQUEST = "request.json"
"""What was asked for; it makes a directory one of a search."""

SEALED = "sealed"
"""What trials know of the data instead of name and place: they are given their tasks, and could load no others."""


def tune(
    config: RunConfig,
    out: Path,
    *,
    protocol: str = "first-task",
    sampler: str = "grid",
    trials: int | None = None,
    seeds: Sequence[int] = (),
    space: Mapping[str, Sequence[Any]] | None = None,
    jobs: int = 1,
    workers: Workers | None = None,
    progress: Progress = lambda *_: None,
) -> Tuning:
    """Search settings of a run, and leave the ledger and what was chosen in ``out``.

    ``config.seed`` decides which classes and images there are; ``seeds``, by default the same one, how the network
    starts and its batches are drawn. At most so many ``trials`` of the method's ``space``, or of another one given.
    The same call goes on after a kill, repeats no trial that is done, and comes to the same choice. ``jobs`` above one
    are processes which learn trials side by side, unless ``workers`` do; the choice does not depend on their number.
    """
    check_sampler(sampler, trials)
    searched = space_of(config, protocol, space)
    seeds = tuple(dict.fromkeys(seeds)) or (config.seed,)
    with _held(out), LocalWorkers(jobs) if jobs > 1 and workers is None else nullcontext(workers) as workers:
        _note_request(out, config, protocol=protocol, sampler=sampler, trials=trials, seeds=seeds, space=searched)
        search = _Search(config, protocol, seeds, searched, out, workers, progress)
        done = search.by_grid(trials) if sampler == "grid" else search.by_optuna(trials or PROPOSALS)
        images, moments = images_in(search.desk.stream), tuple(search.rungs)
        tuning = Tuning(config, protocol, sampler, seeds, searched, moments, images, tuple(done))
        write_json(out / "ledger.json", tuning.as_json())
        write_text(out / "ledger.md", as_page(tuning))
        write_text(out / "chosen.toml", as_toml(tuning))
        shutil.rmtree(out / "runs", ignore_errors=True)
    return tuning


class _Search:
    """A search under way."""

    def __init__(
        self,
        config: RunConfig,
        protocol: str,
        seeds: tuple[int, ...],
        space: Space,
        out: Path,
        workers: Workers | None,
        progress: Progress,
    ) -> None:
        sealed = dataclasses.replace(config.data, name=SEALED, dir=None, judged_on="validation")
        threads = config.threads or config.resources.threads
        trial = dataclasses.replace(config, data=sealed, keep="last", threads=threads)
        self.space, self.seeds, self.out, self.progress = space, seeds, out, progress
        self.first, self.seed, self.rungs = current(config, space), config.seed, rungs(config.train.epochs)
        self.desk = Desk(trial, stream_for(config, protocol, progress), out, workers)

    def by_grid(self, n: int | None) -> list[Trial]:
        """The grid, or a part of it, side by side."""
        wanted = candidates(self.space, self.first, n, self.seed)
        for settings in wanted:
            self.desk.check(settings)
        trials = [self.begin(number, settings) for number, settings in enumerate(wanted)]
        search_grid(trials, self.rungs, self.advance, self.desk.give_up)
        return trials

    def by_optuna(self, n: int) -> list[Trial]:
        """As many proposals."""
        return search_optuna(
            self.space, self.first, n, self.seed, self.begin, self.rungs, self.advance, self.desk.give_up
        )

    def begin(self, number: int, settings: Settings) -> Trial:
        return self.desk.trial(number, settings, self.seeds)

    def advance(self, trials: Sequence[Trial], until: int | None) -> None:
        n = f"{len(trials)} trials" if len(trials) > 1 else f"trial {trials[0].number + 1}" if trials else ""
        where = f"{n} to epoch {until}" if until else f"{n} to the end"
        try:
            self.desk.advance(trials, until, lambda what, done, all_: self.progress(f"{where}, {what}", done, all_))
        except Interrupted as stop:
            raise Interrupted(stop.signum, str(self.out)) from None


@contextmanager
def _held(out: Path) -> Iterator[None]:
    """Hold the directory of a search; a second process is refused, and so is a directory of something else."""
    if out.is_dir() and not (out / REQUEST).exists():
        others = sorted(p.name for p in out.iterdir() if p.name != "lock" and p.suffix != ".tmp")
        if others:
            raise UserError(f"{out} exists and holds no search of settings (found {others[0]}). Choose another --out.")
    make_directory(out)
    try:
        with FileLock(out / "lock", timeout=0):
            yield
    except Timeout:
        raise UserError(
            f"{out} is in use by another search. Wait until it has finished, or choose another --out."
        ) from None


def _note_request(out: Path, config: RunConfig, *, space: Space, **asked: Any) -> None:
    """A directory holds one search: going on with other settings would mix two."""
    settings = {name: value for name, value in flat(config.as_dict()).items() if name not in FREE_TO_CHANGE}
    asked["seeds"] = list(asked["seeds"])
    request = {**asked, "space": {name: list(values) for name, values in space.values.items()}, **settings}
    if not (out / REQUEST).exists():
        write_json(out / REQUEST, request)
        return
    old = read_json(out / REQUEST)
    changes = [name for name in sorted(old.keys() | request.keys()) if old.get(name) != request.get(name)]
    if changes:
        told = ", ".join(f"{name} was {old.get(name)!r} and is now {request.get(name)!r}" for name in changes[:3])
        raise UserError(f"{out} holds a search with other settings: {told}. Choose another --out, or remove it.")

"""Runs that differ in nothing but the seed, found among many, and cells of their numbers."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from snv.errors import UserError
from snv.learners import LEARNERS
from snv.report.cells import NOT_DEFINED, NOT_RUN, Cell
from snv.report.measures import MEASURES, answers_for, metric
from snv.report.settings import Settings, differing, settings_of
from snv.runs import Result


@dataclass(frozen=True, eq=False)
class Variant:
    """Runs of a method that differ in nothing but the seed, with accuracies in a scenario."""

    method: str
    scenario: str
    settings: Settings
    results: Mapping[int, Result]  # by seed

    def metric(self, name: str) -> Cell:
        """Mean and deviation of a metric of the accuracy matrix."""
        return cell_of({seed: metric(r, name, self.scenario) for seed, r in self.results.items()}, self.results)

    def measure(self, name: str) -> Cell:
        """The same of anything else; a run of the other scenario has the same network, but not the same costs."""
        own = {seed: r for seed, r in self.results.items() if name == "CAP" or r.scenario == self.scenario}
        return cell_of({seed: MEASURES[name].of(result) for seed, result in own.items()}, own)

    @property
    def seeds(self) -> Cell:
        return seeds_cell(self.results)


def cell_of(values: Mapping[int, float | None], results: Mapping[int, Result]) -> Cell:
    """Mean and deviation (n − 1) of the seeds that have the value."""
    known = {seed: value for seed, value in sorted(values.items()) if value is not None}
    if not known:
        return Cell(text=NOT_DEFINED)
    deviation = statistics.stdev(known.values()) if len(known) > 1 else None
    runs = tuple(results[seed].path for seed in known)
    return Cell(statistics.fmean(known.values()), deviation, tuple(known), runs)


def seeds_cell(results: Mapping[int, Result]) -> Cell:
    """The seeds, each with its record."""
    seeds = tuple(sorted(results))
    return Cell(seeds=seeds, runs=tuple(results[seed].path for seed in seeds))


def missing(method: str, scenario: str) -> Cell:
    """What stands where there is no run: whether there could be one."""
    return Cell(text=NOT_RUN if scenario in LEARNERS[method].card.scenarios else NOT_DEFINED)


def finished(results: Iterable[Result]) -> list[Result]:
    """Those that learned all their tasks; the rest has no final numbers yet."""
    return [result for result in results if result.record.tasks_done == result.record.n_tasks]


def find_variants(results: Sequence[Result], scenario: str) -> dict[str, list[Variant]]:
    """Variants with accuracies in a scenario, by method; a run in it stands before one that merely has them too."""
    found: dict[str, list[tuple[Settings, dict[int, Result]]]] = defaultdict(list)
    usable = [result for result in results if answers_for(result, scenario)]
    for result in sorted(usable, key=lambda result: result.scenario != scenario):
        settings, variants = settings_of(result), found[result.method]
        seeds = next((seeds for other, seeds in variants if settings == other), None)
        if seeds is None:
            variants.append((settings, seeds := {}))
        add(seeds, result)
    return {
        method: [Variant(method, scenario, settings, seeds) for settings, seeds in variants]
        for method, variants in found.items()
    }


def add(seeds: dict[int, Result], result: Result) -> None:
    """Take a run in, unless its seed is there already in the scenario asked for; two other results are one too many."""
    other = seeds.setdefault(result.seed, result)
    if other.scenario == result.scenario and other.record.results() != result.record.results():
        raise UserError(
            f"{other.path} and {result.path} have the same settings and the same seed and other results. Remove one."
        )


def labelled(variants: Sequence[Variant]) -> dict[str, Variant]:
    """Variants by the settings that set them apart from each other; one alone needs no name."""
    names = differing([variant.settings for variant in variants])
    return {
        ", ".join(f"{name.split('.')[-1]}={variant.settings[name]}" for name in names): variant for variant in variants
    }

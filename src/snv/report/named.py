"""Runs by the names of their files: whatever a folder holds, what each changed, and how far it is from a reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from snv.errors import UserError, unknown
from snv.report.cells import NOT_DEFINED, Cell, Column, Row, Table
from snv.report.measures import MEASURES, metric
from snv.report.paired import FEWEST, paired
from snv.report.settings import differing, named, settings_of
from snv.report.variants import add, cell_of, seeds_cell
from snv.runs import Result

ByName = Mapping[str, Mapping[int, Result]]
"""Runs by name and seed."""


def by_name(results: Sequence[Result]) -> ByName:
    """Finished runs by the names of their files without the seed; those of one name have the same settings."""
    found: dict[str, dict[int, Result]] = {}
    for result in results:
        seeds = found.setdefault(name_of(result.path), {})
        add(seeds, result)
        first = next(iter(seeds.values()))
        if names := differing([settings_of(first), settings_of(result)]):
            raise UserError(
                f"{first.path} and {result.path} have one name and other settings ({names[0]}). Rename one of them."
            )
    return dict(sorted(found.items()))


def name_of(path: Path) -> str:
    """``snv-til`` of ``snv-til-seed0.json``, and of a run directory ``snv-til-seed0``."""
    name = path.name.removesuffix(".json")
    return name.rpartition("-seed")[0] or name


def runs(results: Sequence[Result]) -> Table:
    """One row per name: what it reached and what it took."""
    columns = (
        Column("ACC"),
        Column("BWT"),
        Column("forgetting"),
        Column("CAP"),
        Column("seconds", digits=0),
        Column("seeds", kind="runs"),
    )
    rows = [Row(name, (*_numbers(seeds), seeds_cell(seeds))) for name, seeds in by_name(results).items()]
    return Table("runs", "Runs by name", columns, tuple(rows), label="run")


def _numbers(seeds: Mapping[int, Result]) -> list[Cell]:
    return [*_metrics(seeds, "ACC", "BWT", "forgetting"), *_measures(seeds, "CAP", "seconds")]


def _metrics(seeds: Mapping[int, Result], *names: str) -> list[Cell]:
    return [cell_of({s: metric(r, name, r.scenario) for s, r in seeds.items()}, seeds) for name in names]


def _measures(seeds: Mapping[int, Result], *names: str) -> list[Cell]:
    return [cell_of({s: MEASURES[name].of(r) for s, r in seeds.items()}, seeds) for name in names]


def differences(results: Sequence[Result], against: str) -> Table:
    """ACC and BWT minus those of the reference with the same seed, with 95 % intervals.

    Names that begin with ``against`` are references, and what follows is their tag: ``x-c0.1`` is compared with
    ``against-c0.1``.
    """
    found = by_name(results)
    names = references(found, against)
    rows = [
        Row(name, (Cell(text=reference), *_differences(found[name], found[reference])))
        for reference in names
        for name in found
        if name not in names and name.endswith(reference.removeprefix(against))
    ]
    columns = (
        Column("minus", kind="words"),
        Column("ACC", signed=True),
        Column("BWT", signed=True),
        Column("common seeds", kind="runs"),
    )
    note = f"Mean over common seeds (95 % interval of Student's t). Asterisk: p < 0.05, at least {FEWEST} seeds."
    return Table("differences", "Paired differences", columns, tuple(rows), label="run", notes=(note,))


def references(found: ByName, against: str) -> list[str]:
    """The reference, and its namesakes with a tag that other runs have too."""
    tags = {name: name.removeprefix(against) for name in found if name == against or name.startswith(f"{against}-")}
    if not tags and found:
        raise unknown("run", against, found)
    others = [name for name in found if name not in tags]
    return [name for name, tag in tags.items() if not tag or any(other.endswith(tag) for other in others)]


def _differences(seeds: Mapping[int, Result], reference: Mapping[int, Result]) -> list[Cell]:
    both = sorted(seeds.keys() & reference.keys())
    records = tuple(seeds[seed].path for seed in both)
    return [*(_difference(seeds, reference, name) for name in ("ACC", "BWT")), Cell(seeds=tuple(both), runs=records)]


def _difference(seeds: Mapping[int, Result], reference: Mapping[int, Result], name: str) -> Cell:
    """The mean difference of a metric; its records are those of both sides."""
    found = paired(seeds, reference, lambda result: metric(result, name, result.scenario))
    if found is None:
        return Cell(text=NOT_DEFINED)
    paths = tuple(seeds[seed].path for seed in found.seeds)
    note = "reference: " + ", ".join(reference[seed].path.as_posix() for seed in found.seeds)
    return Cell(found.mean, seeds=found.seeds, runs=paths, interval=found.interval, p=found.p, note=note)


def ablations(results: Sequence[Result], against: str) -> Table:
    """What every run changes against the reference, what it reached, and the difference over common seeds."""
    found = by_name(results)
    if found and against not in found:
        raise unknown("run", against, found)
    columns = (
        Column("what it changes", kind="words"),
        Column("ACC"),
        Column(f"minus {against}", signed=True),
        Column("BWT"),
        Column("CAP"),
        Column("seconds", digits=0),
        Column("of which valuation", digits=0),
        Column("seeds", kind="runs"),
    )
    order = sorted(found, key=lambda name: name != against)
    rows = [Row(name, tuple(_ablation(found[name], found[against]))) for name in order]
    return Table("ablations", f"What is changed against {against}", columns, tuple(rows), label="run")


def _ablation(seeds: Mapping[int, Result], reference: Mapping[int, Result]) -> list[Cell]:
    acc, bwt = _metrics(seeds, "ACC", "BWT")
    difference = Cell(text=NOT_DEFINED) if seeds is reference else _difference(seeds, reference, "ACC")
    costs = _measures(seeds, "CAP", "seconds", "valuation")
    return [Cell(text=_changes(seeds, reference)), acc, difference, bwt, *costs, seeds_cell(seeds)]


def _changes(seeds: Mapping[int, Result], reference: Mapping[int, Result]) -> str:
    """The settings in which two runs differ; of another method, which one."""
    one, other = next(iter(seeds.values())), next(iter(reference.values()))
    told = settings_of(one)
    method = [f"method={one.method}"] if one.method != other.method else []
    return ", ".join([*method, *filter(None, [named(told, differing([told, settings_of(other)]))])]) or NOT_DEFINED

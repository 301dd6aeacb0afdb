"""`snv bench`: a study, as many runs as it names."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from snv.errors import Interrupted, UserError, unknown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from snv.study import Estimates, Plan, Standing


def register(app: typer.Typer) -> None:
    app.command("bench")(bench)


def bench(
    config: Annotated[Path, typer.Argument(help="A study as a TOML file, such as configs/small.toml.")],
    out: Annotated[
        str, typer.Option(help="Where records go, and where they are looked for; may be a URL.")
    ] = "results",
    runs: Annotated[str, typer.Option(help="Where run directories go; may be a URL such as s3://…")] = "runs",
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Runs side by side; default: as many as there are cores for.")
    ] = None,
    only: Annotated[list[str] | None, typer.Option(help="Runs called like this: `snv-*`, `small-tiny/*`.")] = None,
    seeds: Annotated[str | None, typer.Option(help="These instead of the study's: 0,1,2.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where the data files are.")] = None,
    ray: Annotated[
        str | None, typer.Option(help="On a Ray cluster: auto, HOST:PORT, ray://HOST:PORT; local: here.")
    ] = None,
    own_method: Annotated[
        list[str] | None,
        typer.Option("--own-method", help="A method of the study that is a file of yours: FILE.py:CLASS, executed."),
    ] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Also what failed before.")] = False,
    against: Annotated[str | None, typer.Option(help="Compare with this run, paired by seed.")] = None,
    track: Annotated[list[str] | None, typer.Option(help="tensorboard, mlflow or wandb; may be repeated.")] = None,
    hang_after: Annotated[
        float | None, typer.Option(min=5, help="Replace a process after so many seconds without a sign of life; 300.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how all runs stand.")] = False,
    smoke: Annotated[bool, typer.Option("--smoke", help="Prove the study on made-up images; keep nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per run, one per line.")] = False,
) -> None:
    """Work off a study: what is done stays, what was cut goes on. Stopped or killed, the same command continues."""
    from contextlib import ExitStack
    from tempfile import TemporaryDirectory

    from snv.cli.board import Board
    from snv.cli.output import say
    from snv.study import Estimates, Ledger, at_hand, failures, hired, how_they_stand, load_study, planned, work_off
    from snv.study import smoke as prove

    study = load_study(config, own_method or [])
    if smoke:
        if ray is not None:
            raise UserError("A smoke test is for this machine. Leave out --ray.")
        with TemporaryDirectory() as folder, Board(quiet=as_json) as board, nothing_to_continue():
            standings = prove(study, Path(folder), jobs=jobs, only=only or [], watch=board)
            say_end(standings, as_json)
        return
    plan = planned(study, only or [], seed_list(seeds), data_dir)
    check_reference(plan, against)
    with ExitStack() as ending:
        here = ending.enter_context(at_hand(out)), ending.enter_context(at_hand(runs, how_they_stand, failures))
        named = dict(zip(map(str, here), (out, runs), strict=True))
        ledger = Ledger(*here)
        standings, estimates = ledger.survey(plan.jobs), Estimates(ledger.kept.values())
        if dry_run:
            say_plan(plan, standings, estimates, as_json, named)
            return
        left = [standing.job.config for standing in standings if standing.state != "done"]
        workers = ending.enter_context(hired(ray if left else None, jobs, runs, here[1], left, hang_after))
        board = ending.enter_context(Board(estimates, workers.room(), quiet=as_json))
        standings = work_off(standings, workers=workers, retry=retry, track=track or [], watch=board)
        board.close()
        if not as_json:
            for table in tables(standings, against):
                say(table)
        say_end(standings, as_json, named)


@contextmanager
def nothing_to_continue() -> Iterator[None]:
    """A signal ends what nothing is kept of."""
    try:
        yield
    except Interrupted as stop:
        sys.stderr.write("\nStopped; nothing is kept of a smoke test.\n")
        raise typer.Exit(128 + stop.signum) from None


def seed_list(seeds: str | None) -> list[int]:
    """Whole numbers from text such as 0,1,2."""
    try:
        return [int(seed) for seed in seeds.split(",")] if seeds else []
    except ValueError:
        raise UserError(f"--seeds takes whole numbers such as 0,1,2; got {seeds!r}.") from None


def say_plan(
    plan: Plan, standings: Sequence[Standing], estimates: Estimates, as_json: bool, named: Mapping[str, str]
) -> None:
    """How all runs stand, what the rest will cost, and what was left out."""
    from snv.cli.board import count_text, duration
    from snv.cli.output import say, say_json, say_table

    left = [standing for standing in standings if standing.state != "done"]
    guesses = {standing.job.place: estimates.of(standing.job.config) for standing in left}
    if as_json:
        for standing in standings:
            guess = guesses.get(standing.job.place)
            cost = {"seconds": guess.seconds, "bytes": guess.bytes, "rough": guess.rough} if guess else None
            say_json(as_named(standing, named) | {"estimate": cost})
        return
    kinds: dict[tuple[str, str], list[Standing]] = {}
    for standing in standings:
        kinds.setdefault((standing.job.group, standing.job.kind), []).append(standing)
    rows = [row_of(group, kind, members, guesses) for (group, kind), members in kinds.items()]
    columns = ["runs", "done", "partial", "elsewhere", "failed", "to do", "time left", "disk"]
    say_table(None, columns, rows)
    for sentence in plan.skipped:
        say(f"left out: {sentence}")
    say_failures(standings)
    unique = {standing.job.fingerprint: guesses[standing.job.place] for standing in left}
    seconds = sum(guess.seconds or 0 for guess in unique.values())
    megabytes = sum(guess.bytes for guess in unique.values()) / 2**20
    say(f"\n{count_text(standings)}; the rest takes about {duration(seconds)} of one core and {megabytes:,.0f} MiB.")
    if any(guess.rough for guess in unique.values()):
        say("~: rough, since no run of this method on this stream is known; at most, where training may stop early.")


def row_of(group: str, kind: str, members: Sequence[Standing], guesses: dict[str, Any]) -> list[str]:
    """Runs that differ in their seed only."""
    from snv.cli.board import duration

    states = ("done", "partial", "elsewhere", "failed", "to do")
    counts = [sum(standing.state == state for standing in members) for state in states]
    found = [guesses[standing.job.place] for standing in members if standing.job.place in guesses]
    rough = "~" if any(guess.rough for guess in found) else ""
    known = [guess.seconds for guess in found if guess.seconds is not None]
    seconds = rough + duration(sum(known)) if known else ("unknown" if found else "")
    megabytes = f"{rough}{sum(guess.bytes for guess in found) / 2**20:,.0f} MiB" if found else ""
    return [f"{group}/{kind}", *(str(count or "") for count in counts), seconds, megabytes]


def check_reference(plan: Plan, against: str | None) -> None:
    """Refuse to compare with what is no run of the study."""
    names = dict.fromkeys(job.kind for job in plan.jobs)
    if against is not None and not any(is_reference(name, against) for name in names):
        raise unknown("run", against, names)


def is_reference(name: str, against: str) -> bool:
    """Whether runs of a name, or of this name and a tag, are what others are compared with."""
    return name == against or name.startswith(f"{against}-")


def tables(standings: Sequence[Standing], against: str | None) -> list[str]:
    """Per group the means over seeds, and differences to one run if that is asked for."""
    from snv.report import FORMATS, table
    from snv.runs import read_results

    groups: dict[str, list[Path]] = {}
    for standing in standings:
        if standing.state == "done":
            groups.setdefault(standing.job.group, []).append(standing.record)
    made = []
    for group, records in groups.items():
        results = read_results(dict.fromkeys(records))
        kinds = [table("runs", results)]
        if against is not None and any(is_reference(record.stem.rpartition("-seed")[0], against) for record in records):
            kinds.append(table("differences", results, against))
        made += [f"{group}\n{FORMATS['md'](kind, Path())}" for kind in kinds]
    return made


def as_named(standing: Standing, named: Mapping[str, str]) -> dict[str, Any]:
    """One object for machines, with folders by the names that were given."""
    found = standing.as_json()
    for key in ("record", "directory"):
        for folder, name in named.items():
            found[key] = found[key] and found[key].replace(folder, name)
    return found


def say_end(standings: Sequence[Standing], as_json: bool, named: Mapping[str, str] | None = None) -> None:
    """What is done and what has failed; exit code 1 unless all is done."""
    from snv.cli.board import count_text
    from snv.cli.output import say, say_json

    if as_json:
        for standing in standings:
            say_json(as_named(standing, named or {}))
    else:
        say(count_text(standings))
        say_failures(standings)
    if any(standing.state != "done" for standing in standings):
        raise typer.Exit(1)


def say_failures(standings: Sequence[Standing]) -> None:
    from snv.cli.output import say

    for standing in standings:
        if standing.state == "failed":
            say(f"failed: {standing.job.place}: {standing.reason} Run again with --retry.")

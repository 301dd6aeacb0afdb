"""`snv tune`: choose settings on images that no result is reported on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from snv.errors import UserError

if TYPE_CHECKING:
    from snv.study import Tuning


def register(app: typer.Typer) -> None:
    app.command("tune")(tune)


def tune(
    method: Annotated[str, typer.Argument(help="See `snv list methods`; what is searched: `snv list spaces`.")],
    settings: Annotated[
        list[str] | None,
        typer.Argument(help="A TOML file, then overrides such as train.epochs=20.", metavar="[CONFIG] [KEY=VALUE]…"),
    ] = None,
    protocol: Annotated[
        str,
        typer.Option(help="first-task: on the first task alone (the paper's); halves: on half of the classes."),
    ] = "first-task",
    sampler: Annotated[str, typer.Option(help="grid: all of it; optuna: its proposals.")] = "grid",
    trials: Annotated[
        int | None, typer.Option(help="At most so many; default: the whole grid, or 20 proposals.")
    ] = None,
    space: Annotated[
        list[str] | None,
        typer.Option(help="Search these values instead, such as train.lr=[0.001,0.01]; may be given again."),
    ] = None,
    data: Annotated[str | None, typer.Option(help="See `snv list datasets`; folder:PATH for your own.")] = None,
    scenario: Annotated[str | None, typer.Option(help="til (task known at test) or cil (not known).")] = None,
    tasks: Annotated[str | None, typer.Option(help="Number of tasks, or classes of each: 50,25,25.")] = None,
    seed: Annotated[int | None, typer.Option(help="Which classes come first, and which images are held back.")] = None,
    seeds: Annotated[
        str | None, typer.Option(help="Of weights and batches, averaged over: 0,1,2. Default: --seed.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="At most so many per task.")] = None,
    preset: Annotated[
        str | None, typer.Option(help="Begin with a preset of the method, or a TOML file of settings.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Trials side by side; default: as many as there are cores for.")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where the data files are.")] = None,
    ray: Annotated[
        str | None, typer.Option(help="On a Ray cluster: auto, HOST:PORT, ray://HOST:PORT; local: here.")
    ] = None,
    out: Annotated[
        str | None, typer.Option(help="Where ledger and choice go; may be a URL; default tuned/DATA-…")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the ledger as one JSON object.")] = False,
) -> None:
    """Search a method's settings on validation images; test images and later tasks are out of reach.

    Stopped or killed, the same command goes on.
    """
    from contextlib import ExitStack

    from snv.cli.output import say_json
    from snv.cli.progress import Bar
    from snv.cli.run import default_directory, flags, split_arguments
    from snv.config import load_config
    from snv.runs import Mirror, is_url
    from snv.study import at_hand, but_runs, hired, seats
    from snv.study import tune as tune_method

    path, overrides = split_arguments(settings or [])
    asked = flags(data=data, scenario=scenario, tasks=tasks, seed=seed, epochs=epochs, data_dir=data_dir)
    config = load_config(path, [*overrides, f"method={method}", *asked], preset)
    place = default_directory(config.data.name, config.data.tasks, config.scenario, config.method, config.seed)
    out = out or str(Path("tuned", *place.parts[1:]) / protocol)
    elsewhere = ray is not None or is_url(out)
    with ExitStack() as ending:
        folder = ending.enter_context(at_hand(out, but_runs))
        workers = ending.enter_context(hired(ray, jobs, out, folder, [config])) if elsewhere else None
        bar = ending.enter_context(Bar(quiet=as_json, counted=True))
        tuning = tune_method(
            config,
            folder,
            protocol=protocol,
            sampler=sampler,
            trials=trials,
            seeds=numbers(seeds),
            space=None if space is None else dict(map(values_of, space)),
            jobs=jobs or seats([config.resources]),
            workers=workers,
            progress=bar,
        )
        if is_url(out):
            Mirror(folder, out).remove("runs")
    if as_json:
        say_json(tuning.as_json())
    else:
        tell(tuning, out, path)


def numbers(text: str | None) -> list[int]:
    """``0,1,2`` as numbers."""
    try:
        return [int(part) for part in (text or "").split(",") if part.strip()]
    except ValueError:
        raise UserError(f"--seeds takes whole numbers such as 0,1,2; got {text}.") from None


def values_of(text: str) -> tuple[str, Sequence[Any]]:
    """``train.lr=[0.001,0.01]`` as a name and its values."""
    from snv.config import parse_setting

    name, values = parse_setting(text)
    if not isinstance(values, list) or not values:
        raise UserError(f"--space takes a list of values, such as train.lr=[0.001,0.01]; got {text!r}.")
    return name, values


def tell(tuning: Tuning, out: str, path: Path | None) -> None:
    """The story of a search on a terminal."""
    from snv.cli.output import as_lines, number, say, say_table
    from snv.study import as_words, ranked, reached

    rows = []
    for trial in ranked(tuning.trials):
        state = f"{trial.state} after {trial.given_up}" if trial.given_up else trial.state
        mark = " (as before)" if trial.number == 0 else ""
        rows.append([as_words(trial.settings) + mark, number(reached(trial)), str(trial.epochs), state])
    say_table(None, ["settings", "validation accuracy", "epochs", "state"], rows)
    spent = tuning.spent
    facts = {name: f"not searched, stays at {tuning.kept(name)}: {why}" for name, why in tuning.space.left_out.items()}
    facts["spent"] = f"{len(tuning.trials)} trials, {spent['epochs']:,} epochs, {spent['seconds']:,.0f} s"
    facts["chosen"] = as_words(tuning.chosen)
    facts["ledger"] = f"{out}/ledger.md"
    say(as_lines(facts))
    config = f"{path} " if path else ""
    say(
        f"\nsettings: {out}/chosen.toml    use them: snv run {config}--method {tuning.config.method} "
        f"--scenario {tuning.config.scenario} --preset {out}/chosen.toml"
    )

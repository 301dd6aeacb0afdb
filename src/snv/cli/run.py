"""`snv run`: one method, one stream, one seed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from snv.errors import UserError

if TYPE_CHECKING:
    from snv.runs import Record


def register(app: typer.Typer) -> None:
    app.command("run")(run)


def run(
    settings: Annotated[
        list[str] | None,
        typer.Argument(help="A TOML file, then overrides such as train.lr=0.01.", metavar="[CONFIG] [KEY=VALUE]…"),
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="See `snv list methods`; FILE.py:CLASS for your own, whose file is executed.")
    ] = None,
    data: Annotated[str | None, typer.Option(help="See `snv list datasets`; folder:PATH for your own.")] = None,
    scenario: Annotated[str | None, typer.Option(help="til (task known at test) or cil (not known).")] = None,
    tasks: Annotated[str | None, typer.Option(help="Number of tasks, or classes of each: 50,25,25.")] = None,
    seed: Annotated[int | None, typer.Option(help="Class order, split, weights, batches: all of it.")] = None,
    epochs: Annotated[int | None, typer.Option(help="At most so many per task.")] = None,
    preset: Annotated[
        str | None, typer.Option(help="Settings by name, such as paper/cifar100, or a TOML file that snv tune wrote.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda, cuda:1 …")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where the data files are.")] = None,
    out: Annotated[Path | None, typer.Option(help="Directory of the run; default runs/DATA-SCENARIO-…")] = None,
    stop_after: Annotated[int | None, typer.Option(help="Stop after so many tasks; without it, go on later.")] = None,
    track: Annotated[list[str] | None, typer.Option(help="tensorboard, mlflow or wandb; may be repeated.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record as one JSON object.")] = False,
) -> None:
    """Learn a stream of tasks with one method. Stopped or killed, the same command continues it."""
    from snv.cli.output import say, say_json, say_matrix, say_metrics, say_warnings
    from snv.cli.progress import Bar
    from snv.config import load_config
    from snv.machine import ranks
    from snv.runs import run as run_method
    from snv.runs import trackers

    path, overrides = split_arguments(settings or [])
    asked = flags(method, data, scenario, tasks, seed, epochs, device, data_dir)
    config = load_config(path, [*overrides, *asked], preset)
    out = out or default_directory(config.data.name, config.data.tasks, config.scenario, config.method, config.seed)
    with Bar(quiet=as_json or not ranks.speaks()) as bar:
        record = run_method(config, out, bar, stop_after=stop_after, tracker=trackers(track or [], out))
    if not ranks.speaks():
        return
    if as_json:
        say_json(record.as_json())
        return
    say_matrix(record)
    say_metrics([record])
    say_warnings(record)
    if reason := why_it_forgot(record):
        say(reason)
    if record.status != "finished":
        n, of = record.tasks_done, record.n_tasks
        say(f"Stopped after {n} of {of} tasks; the same command without --stop-after goes on.")
    say(f"\nresults: {out}    again: snv show {out}")


def flags(
    method: str | None = None,
    data: str | None = None,
    scenario: str | None = None,
    tasks: str | None = None,
    seed: int | None = None,
    epochs: int | None = None,
    device: str | None = None,
    data_dir: Path | None = None,
) -> list[str]:
    """Options of a command as the settings they stand for."""
    values = {
        "method": method,
        "data.name": data,
        "scenario": scenario.lower() if scenario else None,
        "data.tasks": f"[{tasks}]" if tasks and "," in tasks else tasks,
        "seed": seed,
        "train.epochs": epochs,
        "device": device,
        "data.dir": data_dir,
    }
    return [f"{key}={value}" for key, value in values.items() if value is not None]


def why_it_forgot(record: Record) -> str | None:
    """One line if old tasks fell to nothing in CIL and that is what the method does, not a mistake of the run."""
    from snv.learners import method_named

    n, reason = record.tasks_done, method_named(record.config["method"]).card.forgets
    best = float(record.accuracy[n - 1, : n - 1].max()) if n > 1 else 100.0
    if record.config["scenario"] != "cil" or not reason or best > 5:
        return None
    return f"Old tasks are at {best:.1f} % or less. This is what the method does in CIL: {reason}"


def split_arguments(arguments: list[str]) -> tuple[Path | None, list[str]]:
    """The config file, if the first argument is one, and the key=value overrides."""
    if arguments and "=" not in arguments[0]:
        return Path(arguments[0]), arguments[1:]
    if any("=" not in argument for argument in arguments):
        raise UserError("A config file comes first, before the key=value overrides.")
    return None, arguments


def default_directory(data: str, tasks: object, scenario: str, method: str, seed: int) -> Path:
    name = data.split(":")[0]
    many = tasks if isinstance(tasks, int) else "-".join(map(str, tasks))  # type: ignore[call-overload]
    return Path("runs") / f"{name}-{scenario}-{many}" / f"{method.rpartition(':')[2]}-seed{seed}"

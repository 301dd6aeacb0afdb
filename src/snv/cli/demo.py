"""`snv demo`: watch a network forget, and its upper bound not forget, in under two minutes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from snv.cli.side_by_side import Job
    from snv.config import RunConfig

SMALL = ("train.epochs=15", "network.width=16", "threads=1")
"""Enough for handwritten digits of 8 × 8 pixels."""

STORY = "Ten handwritten digits arrive as five tasks of two. TIL: the task is known at test time. CIL: it is not."


def register(app: typer.Typer) -> None:
    app.command("demo")(demo)


def demo(
    out: Annotated[Path, typer.Option(help="Where the runs and the picture go.")] = Path("demo"),
    seed: Annotated[int, typer.Option(help="Another seed, another class order.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per run, one per line.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Also the methods that take longer: some minutes.")] = False,
) -> None:
    """Methods on five tasks of handwritten digits, in both scenarios: a table and a picture."""
    from snv.cli.output import say, say_json, say_metrics
    from snv.cli.progress import Bar
    from snv.cli.side_by_side import run_all
    from snv.report import figure, save_figure
    from snv.runs import Result

    if not as_json:
        say(f"{STORY}\n")
    with Bar(quiet=as_json, counted=True) as bar:
        records = run_all(made := jobs(out, seed, every), bar)
    picture = out / "accuracy.png"
    results = [Result(path, record) for (_, path), record in zip(made, records, strict=True)]
    save_figure(figure("matrices", results, "snv demo"), picture)
    if as_json:
        for record in records:
            say_json(record.as_json())
        return
    say_metrics(records)
    say(
        "\nACC is the mean accuracy over all tasks at the end, BWT what earlier tasks lost since they were learned. "
        "SGD in CIL answers\nwith the newest classes only: it has forgotten. Joint keeps all data, which is what "
        "continual learning does without."
    )
    say(f"\npicture: {picture}    runs: {out}    one of them: snv show {out}/sgd-cil-seed{seed}")


def jobs(out: Path, seed: int, every: bool = False) -> list[Job]:
    """Every quick method, or every one, in every scenario it can do, and where its run goes."""
    from snv.learners import LEARNERS

    shown = {name: kind.card.scenarios for name, kind in LEARNERS.items() if kind.card.quick or every}
    names = [(name, scenario) for name, scenarios in shown.items() for scenario in scenarios]
    return [(_config(name, scenario, seed), out / f"{name}-{scenario}-seed{seed}") for name, scenario in names]


def _config(method: str, scenario: str, seed: int) -> RunConfig:
    from snv.config import load_config

    return load_config(None, [*SMALL, f"method={method}", f"scenario={scenario}", f"seed={seed}"])

"""`snv figure`: a figure of the study from the records of runs."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command("figure")(figure_)


def figure_(
    name: Annotated[str | None, typer.Argument(help="Which figure; see --list.")] = None,
    runs: Annotated[list[Path] | None, typer.Argument(help="Run directories, records, folders of either.")] = None,
    out: Annotated[Path | None, typer.Option(help="The file: png, svg or pdf; default NAME.png.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="The figures there are.")] = False,
) -> None:
    """A figure of the paper from runs alone, with a caption that says how many and which command made it."""
    from snv.cli.output import say, say_table
    from snv.errors import UserError
    from snv.report import FIGURES, caption_of, figure, save_figure
    from snv.runs import read_results

    if listed:
        rows = [[key, drawing.summary, drawing.needs] for key, drawing in FIGURES.items()]
        say_table(None, ["figure", "what it shows", "needs"], rows)
        return
    if name is None:
        raise UserError(f"Which figure? Known: {', '.join(FIGURES)}. Try: snv figure curves results/small-cifar")
    path = out or Path(f"{name}.png")
    command = shlex.join(["snv", "figure", name, *map(str, runs or []), "--out", path.name])
    drawn = figure(name, read_results(runs or []), command)
    save_figure(drawn, path)
    say(f"{caption_of(drawn)}\n\nfigure: {path}")

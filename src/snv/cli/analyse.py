"""`snv analyse`: pruning, capacity, costs, estimators and exact values of saved runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from snv.cli.evaluate import OwnMethod


def register(app: typer.Typer) -> None:
    app.command("analyse")(analyse_)


def analyse_(
    name: Annotated[str | None, typer.Argument(help="Which analysis; see --list.")] = None,
    runs: Annotated[list[Path] | None, typer.Argument(help="Run directories, or folders that hold some.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of the analysis, e.g. --set task=2.")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where the data files are.")] = None,
    own_method: OwnMethod = None,
    listed: Annotated[bool, typer.Option("--list", help="The analyses there are, and their settings.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per run, one per line.")] = False,
) -> None:
    """Analyse saved runs; what is found is kept beside each, where figures and tables find it."""
    from snv.cli.output import say, say_json, say_table
    from snv.cli.progress import Bar
    from snv.config import parse_setting
    from snv.errors import UserError
    from snv.report import ANALYSES, analyse, file_of
    from snv.runs import find_runs

    if listed:
        rows = [[key, kind.summary, ", ".join(kind.settings) or "–"] for key, kind in ANALYSES.items()]
        say_table(None, ["analysis", "what it finds", "settings"], rows)
        return
    if name is None or not runs:
        raise UserError(
            f"Which analysis, of which run? Known: {', '.join(ANALYSES)}. Try: snv analyse pruning runs/mine"
        )
    chosen = dict(map(parse_setting, settings or []))
    for path in [found for folder in runs for found in find_runs(folder)]:
        with Bar(quiet=as_json) as bar:
            finding = analyse(name, path, data_dir=data_dir, progress=bar, own_method=own_method, **chosen)
        if as_json:
            say_json(finding.as_json() | {"file": str(file_of(path, name))})
            continue
        shown = finding.shown()
        say(shown.title)
        say_table(None, list(shown.columns), [list(row) for row in shown.rows])
        say("\n".join([*shown.notes, f"saved: {file_of(path, name)}", ""]))

"""`snv report`: one page about runs, or about a model, that opens anywhere and asks nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from snv.errors import UserError


def register(app: typer.Typer) -> None:
    app.command("report")(report)


def report(
    runs: Annotated[list[Path] | None, typer.Argument(help="Run directories, records, folders of either.")] = None,
    model: Annotated[Path | None, typer.Option("--model", help="A model's directory instead of runs.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for index.html, or a name that ends in .html.")] = Path("report"),
) -> None:
    """One self-contained page: which method is best, by how much, how sure; or what a model knows and proves."""
    from snv.cli.output import say
    from snv.report import write_model_report, write_report
    from snv.runs import read_results

    if bool(runs) == (model is not None):
        raise UserError("Give runs, or a model with --model. For example: snv report results/small-cifar --out report/")
    path = write_report(read_results(runs or []), out) if model is None else write_model_report(model, out)
    say(f"page: {path}    it opens in any browser, without a network")

"""`snv table`: a table of the study from the records of runs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Format(StrEnum):
    md = "md"
    tex = "tex"
    csv = "csv"
    html = "html"


def register(app: typer.Typer) -> None:
    app.command("table")(table_)


def table_(
    name: Annotated[str | None, typer.Argument(help="Which table; see --list.")] = None,
    runs: Annotated[list[Path] | None, typer.Argument(help="Run directories, records, folders of either.")] = None,
    against: Annotated[str | None, typer.Option(help="What others are compared with, by name.")] = None,
    format_: Annotated[Format | None, typer.Option("--format", help="As --out ends, or md.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write it to this file; its links start there.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="The tables there are.")] = False,
) -> None:
    """A table of the paper or of ours, from runs alone; what has no run says so."""
    from snv.cli.output import say, say_table
    from snv.errors import UserError
    from snv.files import write_text
    from snv.report import FORMATS, TABLES, table
    from snv.runs import read_results

    if listed:
        say_table(None, ["table", "what it shows"], [[key, kind.summary] for key, kind in TABLES.items()])
        return
    if name is None:
        raise UserError(f"Which table? Known: {', '.join(TABLES)}. For example: snv table small results/small-cifar")
    suffix = out.suffix[1:] if out else ""
    chosen = format_.value if format_ else suffix if suffix in FORMATS else "md"
    text = FORMATS[chosen](table(name, read_results(runs or []), against), out.parent if out else Path())
    if out is None:
        say(text.rstrip("\n"))
    else:
        write_text(out, text)
        say(f"table: {out}")

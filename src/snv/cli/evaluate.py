"""`snv evaluate`: a recorded run measured again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from snv.runs import Reevaluation

OwnMethod = Annotated[
    str | None,
    typer.Option("--own-method", help="If the run's method is a file of yours: FILE.py:CLASS. The file is executed."),
]


def register(app: typer.Typer) -> None:
    app.command("evaluate")(evaluate)


def evaluate(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    task: Annotated[int | None, typer.Option(help="After this task, counted from 1; default: the newest.")] = None,
    every: Annotated[bool, typer.Option("--all", help="After every task whose checkpoint is kept.")] = False,
    data_dir: Annotated[Path | None, typer.Option(help="Where the data files are.")] = None,
    own_method: OwnMethod = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Measure a run's checkpoints on the test images again; exit code 1 if anything is not what the record says."""
    import dataclasses

    from snv.cli.output import say, say_json
    from snv.cli.progress import Bar
    from snv.runs import evaluate_run

    with Bar(quiet=as_json) as bar:
        rows = evaluate_run(run, task, every=every, data_dir=data_dir, progress=bar, own_method=own_method)
    same = all(row.same for row in rows)
    if as_json:
        told = [dataclasses.asdict(row) | {"same": row.same, "difference": row.difference} for row in rows]
        say_json({"same": same, "rows": told})
    else:
        for row in rows:
            tell(row)
        say("the same, to the last bit" if same else "not the same: the record says otherwise")
    if not same:
        raise typer.Exit(1)


def tell(row: Reevaluation) -> None:
    """One row of the accuracy matrix, twice."""
    from snv.cli.output import number, say, say_table

    measures = [("recorded", row.recorded), ("measured now", row.measured)]
    if row.recorded_known:
        measures += [("recorded, task known", row.recorded_known), ("measured now, task known", row.measured_known)]
    n = len(row.recorded)
    cells = [[name, *(number(x, 2) for x in values), *[""] * (n - len(values))] for name, values in measures]
    say_table(f"after task {row.task}, percent", ["", *(f"task {j + 1}" for j in range(n))], cells)
    if row.difference:
        say(f"largest difference: {row.difference:.4g} points")
    if row.same_details is False:
        say("classes are taken for others than the record says: snv show --confusion")

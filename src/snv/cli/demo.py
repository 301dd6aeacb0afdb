"""`snv demo`: watch a network forget, and its upper bound not forget, in under two minutes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

SMALL = ("train.epochs=15", "network.width=16", "threads=1")
"""Enough for handwritten digits of 8 × 8 pixels."""


def register(app: typer.Typer) -> None:
    app.command("demo")(demo)


def demo(
    out: Annotated[Path, typer.Option(help="Where the runs and the picture go.")] = Path("demo"),
    seed: Annotated[int, typer.Option(help="Another seed, another class order.")] = 0,
) -> None:
    """Every method on five tasks of handwritten digits, in both scenarios: a table and a picture."""
    from snv.analysis.matrices import save_matrices
    from snv.cli.output import say, say_metrics
    from snv.cli.progress import Bar
    from snv.config import load_config
    from snv.learners import LEARNERS
    from snv.protocol.run import run

    say("Ten handwritten digits arrive as five tasks of two. TIL: the task is known at test time. CIL: it is not.\n")
    records = []
    for name, learner in LEARNERS.items():
        for scenario in learner.scenarios:
            config = load_config(None, [*SMALL, f"method={name}", f"scenario={scenario}", f"seed={seed}"])
            with Bar() as bar:
                records.append(run(config, out / f"{name}-{scenario}-seed{seed}", bar))
    picture = out / "accuracy.png"
    save_matrices(records, picture)
    say_metrics(records)
    say(
        "\nACC is the mean accuracy over all tasks at the end, BWT what earlier tasks lost since they were learned. "
        "SGD in CIL answers\nwith the newest classes only: it has forgotten. Joint keeps all data, which is what "
        "continual learning does without."
    )
    say(f"\npicture: {picture}    runs: {out}    one of them: snv show {out}/sgd-cil-seed{seed}")

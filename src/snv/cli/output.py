"""How results look on a terminal: tables for people, JSON for machines."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from snv.runs import Record


def say(text: str = "") -> None:
    sys.stdout.write(text + "\n")


def say_json(value: object) -> None:
    say(json.dumps(value, ensure_ascii=False, allow_nan=False))


def say_table(title: str | None, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table; the first column to the left, numbers to the right."""
    table = Table(title=title, title_justify="left", title_style="bold")
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i == 0 else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    width = None if sys.stdout.isatty() else 160
    Console(width=width).print(table)


def number(value: float | None, digits: int = 2) -> str:
    return "–" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def say_matrix(record: Record) -> None:
    """The accuracy matrix, one row per task learned."""
    n = record.tasks_done
    columns = ["after task", *(f"task {j + 1}" for j in range(n)), "mean"]
    rows = []
    for i in range(n):
        seen = record.accuracy[i, : i + 1]
        cells = [number(value, 1) for value in seen] + [""] * (n - i - 1)
        rows.append([str(i + 1), *cells, number(seen.mean(), 1)])
    say_table("accuracy on each task, percent", columns, rows)


def say_metrics(records: Sequence[Record]) -> None:
    """One row per run."""
    names = ["ACC", "AvgAcc", "BWT", "FWT", "forgetting", "PS", "CAP"]
    rows = []
    for record in records:
        metrics, config = record.metrics, record.config
        seconds = sum(record.cost.get("seconds", {}).values())
        label = f"{config['method']} · {config['scenario'].upper()} · seed {config['seed']}"
        latency = [number(record.cost.get("latency_ms", {}).get(batch)) for batch in ("1", "64")]
        rows.append([label, *(number(metrics[name]) for name in names), f"{seconds:.1f}", *latency, record.status])
    say_table(None, ["run", *names, "seconds", "ms/image", "ms/image of 64", "status"], rows)


def as_lines(items: dict[str, Any]) -> str:
    width = max(map(len, items))
    return "\n".join(f"{key:<{width}}  {value}" for key, value in items.items())

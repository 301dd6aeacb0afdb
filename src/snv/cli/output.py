"""How results look on a terminal: tables for people, JSON for machines."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from snv.errors import UserError
from snv.text import UNSEEN, printable, printable_lines

if TYPE_CHECKING:
    from snv.runs import Details, Record

WIDEST = 20
"""Classes that a confusion matrix has room for, and mistakes that are listed where it has none."""


def say(text: str = "") -> None:
    """Lines for people; what would move the cursor or name a window is spelt out."""
    sys.stdout.write(printable_lines(text) + "\n")


def say_json(value: object) -> None:
    """One line for machines, whose signs a terminal only prints, too."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    sys.stdout.write(UNSEEN.sub(lambda found: f"\\u{ord(found.group()):04x}", text) + "\n")


def say_table(title: str | None, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table; the first column to the left, numbers to the right."""
    named = None if title is None else Text(printable(title), style="bold")
    table = Table(title=named, title_justify="left", title_style="bold")
    for i, column in enumerate(columns):
        table.add_column(Text(printable(column)), justify="left" if i == 0 else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))  # as plain text: [red] in a name is no colour
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
        metrics = record.metrics
        seconds = sum(record.cost.get("seconds", {}).values())
        latency = [number(record.cost.get("latency_ms", {}).get(batch)) for batch in ("1", "64")]
        rows.append(
            [_label(record), *(number(metrics[name]) for name in names), f"{seconds:.1f}", *latency, record.status]
        )
    say_table(None, ["run", *names, "seconds", "ms/image", "ms/image of 64", "status"], rows)


def say_warnings(record: Record) -> None:
    """What went wrong in training, one paragraph each."""
    for fault in record.warnings:
        say(f"warning: {fault['text']}")


def say_classes(record: Record) -> None:
    """How well every class is answered, and what it is taken for most often."""
    details = _details(record)
    most = {i: (j, n) for i, j, n in reversed(details.mistakes())}
    rows, i = [], 0
    for t, names in enumerate(details.tasks):
        for name in names:
            taken = f"{details.classes[most[i][0]]} ({most[i][1]})" if i in most else ""
            rows.append([name, str(t + 1), str(details.confusion[i].sum()), number(details.accuracy[i], 1), taken])
            i += 1
    say_table(_title(record, "every class"), ["class", "task", "images", "right %", "most often taken for"], rows)
    best = [number(percent, 1) for percent in details.top5 if percent is not None]
    if best:
        say(f"among the five best answers, task by task: {', '.join(best)} %")


def say_confusion(record: Record) -> None:
    """What each class is answered with, as a matrix; of many classes, the most frequent mistakes."""
    details = _details(record)
    names = details.classes
    if len(names) <= WIDEST:
        rows = [[name, *(str(n or "") for n in row)] for name, row in zip(names, details.confusion, strict=True)]
        say_table(_title(record, "test images of each class (row) by answer (column)"), ["", *names], rows)
        return
    totals = details.confusion.sum(1)
    rows = [[names[i], names[j], str(n), number(100 * n / totals[i], 1)] for i, j, n in details.mistakes()[:WIDEST]]
    say_table(_title(record, "most frequent mistakes"), ["class", "answer", "images", "% of its images"], rows)


def _details(record: Record) -> Details:
    if record.details is None:
        raise UserError("This run has no answers by class: it is not evaluated yet, or older than they are.")
    return record.details


def _title(record: Record, what: str) -> str:
    return f"{_label(record)}, after task {record.tasks_done}: {what}"


def _label(record: Record) -> str:
    """Which run it is; of a method in a file of one's own, the file without its folder."""
    config = record.config
    return f"{config['method'].rpartition('/')[2]} · {config['scenario'].upper()} · seed {config['seed']}"


def as_lines(items: dict[str, Any]) -> str:
    width = max(map(len, items))
    return "\n".join(f"{printable(key):<{width}}  {printable(str(value))}" for key, value in items.items())

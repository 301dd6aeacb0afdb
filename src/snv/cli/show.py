"""`snv show`: what is known of a run, or of all runs in a folder."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from snv.runs import Record


def register(app: typer.Typer) -> None:
    app.command("show")(show)


def show(
    directories: Annotated[list[Path], typer.Argument(help="Run directories, or folders that hold some.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per run, one per line.")] = False,
    classes: Annotated[bool, typer.Option("--classes", help="Accuracy of every class at the end.")] = False,
    confusion: Annotated[bool, typer.Option("--confusion", help="What classes are taken for at the end.")] = False,
    keep: Annotated[Path | None, typer.Option(help="Write one run to this JSON file, its neurons beside it.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw the matrices to this file (png, svg, pdf).")] = None,
) -> None:
    """Accuracy matrix, metrics and cost of finished and unfinished runs."""
    from snv.cli.output import (
        as_lines,
        say,
        say_classes,
        say_confusion,
        say_json,
        say_matrix,
        say_metrics,
        say_warnings,
    )
    from snv.runs import find_runs, read_results

    results = read_results(path for directory in directories for path in find_runs(directory))
    records = [result.record for result in results]
    if picture is not None:
        from snv.report import figure, save_figure

        command = shlex.join(["snv", "show", *map(str, directories), "--picture", picture.name])
        save_figure(figure("matrices", results, command), picture)
    if keep is not None:
        keep_one(directories, keep)
    if as_json:
        for record in records:
            say_json(record.as_json())
        return
    if classes or confusion:
        for record in records:
            if classes:
                say_classes(record)
            if confusion:
                say_confusion(record)
        return
    if len(records) == 1:
        say_matrix(records[0])
    say_metrics(records)
    if len(records) == 1:
        say_warnings(records[0])
        say(as_lines(kept_lines(records[0]) | valuation_lines(records[0]) | cost_lines(records[0].cost)))
    if picture is not None:
        say(f"picture: {picture}")
    if keep is not None:
        say(f"kept: {keep}")


def keep_one(directories: list[Path], file: Path) -> None:
    """The record of the one run that is shown, as a file."""
    from snv.errors import UserError
    from snv.runs import find_runs, keep_result

    runs = [path for directory in directories for path in find_runs(directory)]
    if len(runs) != 1:
        raise UserError(f"--keep writes one run to one file; here are {len(runs)}. Name one run.")
    keep_result(runs[0], file)


def kept_lines(record: Record) -> dict[str, str]:
    """What the tasks learned so far take up."""
    lines = {}
    if record.capacity:
        shares = ", ".join(f"{100 * share:.1f} % of {what}" for what, share in record.capacity.items())
        lines["network in use"] = shares
    if record.bytes_kept:
        lines["kept beyond the network"] = f"{record.bytes_kept[-1] / 2**20:.2f} MiB"
    return lines


def valuation_lines(record: Record) -> dict[str, str]:
    """What the valuations of a run said of themselves, task by task."""
    from snv.cli.output import number

    valuations = [report for report in record.valuations if report is not None]
    if not valuations:
        return {}
    ratios = ", ".join("–" if report is None else number(report["efficiency_ratio"]) for report in record.valuations)
    spent = f"{sum(report['evaluations'] for report in valuations):,.0f} evaluations"
    if "valuation_seconds" in record.cost:
        spent += f", {sum(record.cost['valuation_seconds']):.1f} s"
    names, ends, certificates = (
        "; ".join(dict.fromkeys(str(valuation[key]) for valuation in valuations))
        for key in ("estimator", "stopped", "certificate")
    )
    return {
        "values": f"{names}: Σφ / (V(all) − V(∅)) = {ratios} task by task; {spent}; {ends}",
        "certificate": certificates,
    }


def cost_lines(cost: dict[str, Any]) -> dict[str, str]:
    """The cost of a run in a person's units."""
    whose = "" if cost.get("peak_of") == "run" else " (of the process, with all it did before)"
    lines = {
        "seconds": ", ".join(f"{phase} {s:.1f}" for phase, s in cost.get("seconds", {}).items()),
        "multiply-accumulates": ", ".join(f"{phase} {n / 1e9:,.2f} G" for phase, n in cost.get("macs", {}).items()),
        "peak memory": f"{cost.get('peak_bytes', 0) / 2**30:.2f} GiB{whose}",
    }
    if "latency_ms" in cost:
        latency = cost["latency_ms"]
        lines["latency per image"] = ", ".join(f"{ms:.2f} ms at batch {b}" for b, ms in latency.items())
    if "parameters" in cost:
        lines["parameters"] = f"{cost['parameters']:,}"
    if "bytes_on_disk" in cost:
        lines["on disk"] = f"{cost['bytes_on_disk'] / 2**20:.2f} MiB"
    if (computed := cost.get("computed")) is not None:
        numbers, device, cpu, threads = (computed.get(name) for name in ("precision", "device", "cpu", "threads"))
        lines["computed"] = f"in {numbers} on {device}, {cpu}, threads: {threads}"
    return lines

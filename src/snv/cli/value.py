"""`snv value`: which neurons of a run matter for one of its tasks."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from snv.cli.evaluate import OwnMethod

if TYPE_CHECKING:
    from snv.shapley import Valuation, Workers


def register(app: typer.Typer) -> None:
    app.command("value")(value)


def value(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    task: Annotated[int, typer.Option(help="The task, counted from 1.")],
    after: Annotated[int | None, typer.Option(help="The network after this task; default: after --task.")] = None,
    method: Annotated[
        str, typer.Option(help="exact, montecarlo, truncated, tmab, regression, gradient, hybrid or in-run.")
    ] = ("gradient"),
    payoff: Annotated[str, typer.Option(help="loss, accuracy or probability.")] = "loss",
    k: Annotated[float, typer.Option(help="The top of interest: a share, or a number of neurons.")] = 0.1,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of the method, e.g. --set draws=128.")
    ] = None,
    max_evaluations: Annotated[float, typer.Option(help="Stop after so many V(S).")] = math.inf,
    max_seconds: Annotated[float, typer.Option(help="Stop after so long.")] = math.inf,
    workers: Annotated[
        int | None, typer.Option(help="So many processes evaluate; their number changes the time only.")
    ] = None,
    ray: Annotated[
        str | None, typer.Option(help="These workers are on a Ray cluster: host:port, auto, or local.")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where the data files are.")] = None,
    own_method: OwnMethod = None,
    out: Annotated[Path | None, typer.Option(help="Where to save; default: RUN/values/…")] = None,
    plots: Annotated[bool, typer.Option("--plots", help="Draw values by layer, cumulated, with intervals.")] = False,
    again: Annotated[bool, typer.Option("--continue", help="Go on from the result saved there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Shapley values of a run's neurons on a task's validation images, with error bars; the bill comes first."""
    from snv.cli.output import say, say_json
    from snv.cli.progress import Bar
    from snv.config import parse_setting
    from snv.errors import UserError
    from snv.runs import value_run
    from snv.shapley import Valuation

    moment = "" if after is None else f"-after-{after}"
    path = out or run / "values" / f"task-{task:03d}{moment}-{method}.safetensors"
    chosen: dict[str, Any] = {"k": int(k) if k >= 1 else k} | ({} if method == "in-run" else {"payoff": payoff})
    if again:
        if not path.exists():
            raise UserError(f"There is nothing to continue: {path} does not exist. Leave --continue out.")
        chosen["resume"] = Valuation.load(path)
    with Bar(quiet=as_json) as bar:
        valuation = value_run(
            run,
            task,
            method,
            after=after,
            data_dir=data_dir,
            workers=workers_asked(workers, ray),
            own_method=own_method,
            progress=bar,
            announce=None if as_json else lambda bill: say(f"{bill}\n"),
            max_evaluations=max_evaluations,
            max_seconds=max_seconds,
            **chosen,
            **dict(map(parse_setting, settings or [])),
        )
    valuation.save(path)
    if plots:
        from snv.shapley import save_plots

        save_plots(valuation, path.with_suffix(""))
    if as_json:
        say_json(as_object(valuation) | {"file": str(path)})
    else:
        tell(valuation)
        say(f"\nsaved: {path}" + (f"    pictures: {path.with_suffix('')}/" if plots else ""))


def workers_asked(n: int | None, ray: str | None) -> Workers | None:
    """Processes of this machine, or of a cluster."""
    from snv.errors import UserError
    from snv.shapley import Workers

    if n is None and ray is not None:
        raise UserError("--ray says where workers are; --workers says how many. Add e.g. --workers 8.")
    return None if n is None else Workers(n, ray)


def as_object(valuation: Valuation) -> dict[str, Any]:
    """What a machine wants to know; the values themselves are in the file."""
    low, high = (finite(end.tolist()) for end in valuation.interval())
    return {
        "method": valuation.method,
        "neurons": len(valuation),
        "k": valuation.k,
        "v_all": valuation.v_all,
        "v_none": valuation.v_none,
        "evaluations": valuation.evaluations,
        "seconds": valuation.seconds,
        "stopped": valuation.stopped,
        "certified": valuation.certified,
        "certificate": valuation.certificate,
        "efficiency_ratio": finite([valuation.efficiency_ratio])[0],
        "split_half_overlap": finite([valuation.split_half_overlap])[0],
        "top_k": valuation.top_k().tolist(),
        "names": list(valuation.names or ()),
        "values": finite(valuation.values.tolist()),
        "stderr": finite(valuation.stderr.tolist()),
        "low": low,
        "high": high,
    }


def finite(numbers: list[float]) -> list[float | None]:
    return [x if math.isfinite(x) else None for x in numbers]


def interval(low: float, high: float) -> str:
    return f"[{low:+.5f}, {high:+.5f}]" if math.isfinite(low) and math.isfinite(high) else "–"


def tell(valuation: Valuation) -> None:
    """The story of a valuation on a terminal."""
    from snv.cli.output import as_lines, number, say, say_table

    low, high = valuation.interval()
    names = valuation.names or tuple(str(i) for i in range(len(valuation)))
    rows = [
        [names[i], f"{float(valuation.values[i]):+.5f}", interval(float(low[i]), float(high[i]))]
        for i in valuation.top_k(min(10, len(valuation))).tolist()
    ]
    say_table("most valuable neurons", ["neuron", "value", "95 % interval"], rows)
    facts = {
        "V(all), V(∅)": f"{valuation.v_all:.4f}, {valuation.v_none:.4f}",
        "Σφ / (V(all) − V(∅))": number(finite([valuation.efficiency_ratio])[0]),
        f"top {valuation.k} agrees between halves": number(finite([valuation.split_half_overlap])[0]),
        "spent": f"{valuation.evaluations:,.0f} evaluations, {sum(valuation.seconds.values()):.1f} s",
        "stopped": valuation.stopped,
        "certificate": valuation.certificate,
    }
    say(as_lines(facts))

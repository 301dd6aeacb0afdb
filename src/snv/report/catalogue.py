"""The tables by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from snv.errors import UserError, unknown
from snv.report.breakdown import breakdown
from snv.report.cells import Table
from snv.report.costs import costs
from snv.report.details import details_cil, details_til
from snv.report.estimators import estimators
from snv.report.hyper import chosen, grids
from snv.report.named import ablations, differences, runs
from snv.report.sequences import cil, imagenet, til
from snv.report.small import small
from snv.report.tried import tried
from snv.report.variants import finished
from snv.report.versus import versus
from snv.runs import Result


@dataclass(frozen=True)
class Kind:
    """A table that can be asked for."""

    make: Callable[..., Table]  # from runs and, if it compares, the name others are compared with
    summary: str
    against: str | None = None  # whom others are compared with unless someone else is asked for; None: it compares none


TABLES: dict[str, Kind] = {
    "small": Kind(small, "one stream: ACC and BWT of all methods in TIL and CIL, beside the paper's numbers", "snv"),
    "details-til": Kind(details_til, "one stream in TIL: all metrics, CAP, what is kept, latency", "snv"),
    "details-cil": Kind(details_cil, "one stream in CIL: the same", "snv"),
    "versus": Kind(versus, "one stream: ACC minus that of --against, seed by seed, with intervals", "snv"),
    "runs": Kind(runs, "any runs by the names of their files"),
    "differences": Kind(differences, "differences from the runs named --against, seed by seed, with intervals", "snv"),
    "ablations": Kind(
        ablations, "what every run changes against the one named --against, and what it costs", "snv-til"
    ),
    "tried": Kind(tried, "one stream: c above 0.5, no cumulative mask, weights released, no reuse, small buffers"),
    "imagenet": Kind(imagenet, "the paper's: ImageNet-1k, CIL and TIL, 10, 20 and 50 tasks", "snv"),
    "til": Kind(til, "the paper's: CIFAR-100 and Tiny-ImageNet in TIL, 10 and 20 tasks, SNV and WSN at five c", "snv"),
    "cil": Kind(cil, "the paper's: CIFAR-100 and Tiny-ImageNet in CIL, 10 and 20 tasks", "snv"),
    "cost": Kind(costs, "the paper's: operations, time, memory, latency"),
    "valuation": Kind(breakdown, "the paper's: where the time of a valuation goes"),
    "estimators": Kind(estimators, "the paper's: Monte Carlo, truncated, TMAB; and ours"),
    "grids": Kind(grids, "the paper's: searched hyper-parameters; ours: all values of the runs given"),
    "chosen": Kind(chosen, "the paper's: chosen hyper-parameters; ours: defaults, and values of the runs given"),
}


def table(name: str, results: Sequence[Result], against: str | None = None) -> Table:
    """A table of the study, made from runs alone; ``against``: whom others are compared with."""
    if name not in TABLES:
        raise unknown("table", name, TABLES)
    kind = TABLES[name]
    if kind.against is None and against is not None:
        raise UserError(f"The table {name} compares no runs; got {against} to compare with. Leave --against out.")
    complete = finished(results)
    made = kind.make(complete) if kind.against is None else kind.make(complete, against or kind.against)
    left = len(results) - len(complete)
    notes = (f"Left out because they are not finished: {left}.",) if left else ()
    return dataclasses.replace(made, notes=(*made.notes, *notes))

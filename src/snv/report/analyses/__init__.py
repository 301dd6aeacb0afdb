"""Analyses of saved runs, by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from snv.errors import UserError, unknown
from snv.report.analyses.capacity import Capacity, capacity
from snv.report.analyses.costs import Costs, costs
from snv.report.analyses.estimators import Ablation, estimators
from snv.report.analyses.exact import Exact, exact
from snv.report.analyses.finding import Finding, Shown, file_of, load_finding
from snv.report.analyses.pruning import Pruning, pruning
from snv.runs import Progress

__all__ = [
    "ANALYSES",
    "Ablation",
    "Analysis",
    "Capacity",
    "Costs",
    "Exact",
    "Finding",
    "Pruning",
    "Shown",
    "analyse",
    "file_of",
    "load_finding",
]

OPENING = ("data_dir", "progress", "own")
"""What a run may need to be opened."""


@dataclass(frozen=True)
class Analysis:
    """What can be asked of a saved run."""

    make: Callable[..., Finding]
    kind: type[Finding]
    summary: str

    @property
    def settings(self) -> list[str]:
        """What may be set, besides the run and what opens it."""
        return [name for name in inspect.signature(self.make).parameters if name not in ("path", *OPENING)]

    @property
    def opens(self) -> bool:
        """Whether it needs the run's data and network, rather than its files alone."""
        return "own" in inspect.signature(self.make).parameters


ANALYSES: dict[str, Analysis] = {
    "pruning": Analysis(pruning, Pruning, "accuracy while 0 to 90 % of the weights are removed, and the cliff"),
    "capacity": Analysis(
        capacity, Capacity, "neurons and parameters in use after each task, by layer; overlap of tasks"
    ),
    "costs": Analysis(costs, Costs, "seconds and operations by kind of work; where the time of a valuation goes"),
    "estimators": Analysis(estimators, Ablation, "the paper's estimators (a), (b), (c) and ours on one task"),
    "exact": Analysis(exact, Exact, "exact values of 4, 8, 12, 16 neurons, timed, and where that ends"),
}


def analyse(
    name: str,
    run: str | Path,
    *,
    data_dir: Path | None = None,
    progress: Progress = lambda *_: None,
    own_method: str | None = None,
    network: nn.Module | None = None,
    data: Any = None,
    **settings: Any,
) -> Finding:
    """Make an analysis of a saved run and keep it beside the run, where figures find it.

    ``own_method``, ``network`` and ``data`` are those of the run, if it was made with some of one's own.
    """
    if name not in ANALYSES:
        raise unknown("analysis", name, ANALYSES)
    analysis = ANALYSES[name]
    for setting in settings:
        if not analysis.settings:
            raise UserError(f"{name} has no settings; got {setting}. Leave it out.")
        if setting not in analysis.settings:
            raise unknown(f"setting of {name}", setting, analysis.settings)
    given: dict[str, Any] = {"own_method": own_method, "network": network, "data": data}
    opening = {"data_dir": data_dir, "progress": progress, **given} if analysis.opens else {}
    finding = analysis.make(Path(run), **opening, **settings)
    finding.save(Path(run))
    return finding

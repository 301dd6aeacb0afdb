"""What a run cost, phase by phase, and where the time of a valuation goes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Unpack

import torch

from snv.config import RunConfig
from snv.learners import SNVConfig, SNVPaperConfig, estimator_settings, shares_prefixes
from snv.report.analyses.finding import Finding, Shown, number
from snv.report.analyses.players import Timed
from snv.runs import Moment, Own, Progress, Record, load_record, moment_after, open_run
from snv.shapley import ESTIMATORS, Valuation, as_printed, estimate
from snv.subnetworks import select

PHASES = {
    "train": ("train", "consolidate", "rewire"),
    "value": ("value", "importance"),
    "keep": ("certify", "statistics", "memory", "aggregation", "classifier"),
    "evaluate": ("evaluate", "ask", "cut"),
}
"""What a run books its costs under, in four kinds: learning weights, weighing them, what is kept of a task, tests."""


@dataclass(frozen=True)
class Breakdown:
    """Seconds of one valuation, made once more: how long the network was at work, and what was done around it."""

    task: int
    estimator: str
    evaluations: float  # V(S) on all validation images
    forward_passes: float  # of single images
    network: float  # mean responses, forward passes, and backward ones of estimators that take gradients
    around: float  # drawing, truncation, the bandit's looks, averages
    mask: float  # choosing S_t and joining it to B_t
    training: float  # of the run: mean seconds a task was trained

    @property
    def total(self) -> float:
        return self.network + self.around + self.mask


@dataclass(frozen=True)
class Costs(Finding):
    """Seconds and multiply-accumulates by kind of work, and what is held and kept."""

    name: ClassVar[str] = "costs"
    seconds: dict[str, float]
    macs: dict[str, float]
    peak_bytes: int | None
    bytes_kept: int | None  # beyond the network, after the last task
    parameters: int | None
    latency_ms: dict[str, float]  # per image, by batch size
    valuation: Breakdown | None  # of methods that value neurons

    def shown(self) -> Shown:
        kinds = list(dict.fromkeys([*self.seconds, *self.macs]))
        rows = [(kind, number(self.seconds.get(kind), 1), _giga(self.macs.get(kind))) for kind in kinds]
        rows.append(("all", number(sum(self.seconds.values()), 1), _giga(sum(self.macs.values()))))
        held = f"Peak memory {_mebi(self.peak_bytes)}, kept beyond the network {_mebi(self.bytes_kept)}."
        notes = (held, *([] if self.valuation is None else [_sentence(self.valuation)]))
        title = f"what {self.method} · {self.scenario.upper()} · seed {self.seed} cost"
        return Shown(title, ("work", "seconds", "multiply-accumulates, G"), tuple(rows), notes)


def by_kind(costs: Mapping[str, float]) -> dict[str, float]:
    """The sums of the four kinds of work, those without any left out; an unknown phase stands for itself."""
    kind_of = {phase: kind for kind, phases in PHASES.items() for phase in phases}
    sums: dict[str, float] = {}
    for kind in [*PHASES, *(phase for phase in costs if phase not in kind_of)]:
        parts = [cost for phase, cost in costs.items() if kind_of.get(phase, phase) == kind]
        sums |= {kind: sum(parts)} if parts else {}
    return sums


def costs(
    path: Path,
    *,
    task: int = 1,
    data_dir: Path | None = None,
    progress: Progress = lambda *_: None,
    **own: Unpack[Own],
) -> Costs:
    """The costs a run recorded; of a run that values neurons also one valuation taken apart.

    For that the valuation of ``task`` is repeated with the run's own estimator, in the network as it was kept after
    that task: the one it was made in, before consolidation, is not kept.
    """
    record = load_record(path)
    breakdown = None
    if record.valuations:
        config = open_run(path, data_dir, progress, **own).config
        moment = moment_after(path, task, None, data_dir, progress, **own)
        breakdown = broken_down(moment, config, task, _training_per_task(record))
    return recorded_costs(record, breakdown)


def recorded_costs(record: Record, valuation: Breakdown | None = None) -> Costs:
    """What stands in a record."""
    config, cost = record.config, record.cost
    return Costs(
        config["method"],
        config["scenario"],
        config["seed"],
        by_kind(cost.get("seconds", {})),
        by_kind(cost.get("macs", {})),
        cost.get("peak_bytes"),
        record.bytes_kept[-1] if record.bytes_kept else None,
        cost.get("parameters"),
        cost.get("latency_ms", {}),
        valuation,
    )


def _training_per_task(record: Record) -> float:
    return by_kind(record.cost.get("seconds", {})).get("train", 0.0) / max(1, record.tasks_done)


def broken_down(moment: Moment, config: RunConfig, task: int, training: float) -> Breakdown | None:
    """One valuation with the run's estimator, timed; None where there is no estimator to repeat."""
    own: Any = config.learner_config()
    if not isinstance(own, SNVConfig | SNVPaperConfig):
        return None
    name = "tmab" if isinstance(own, SNVPaperConfig) else own.estimator
    if name not in ESTIMATORS:
        return None
    started = time.perf_counter()
    game = _game(moment, own)  # looks at the mean responses of all neurons
    built = time.perf_counter()
    timed = Timed(game)
    found = _valued(timed, own, name, config.seed)
    valued = time.perf_counter()
    mask = select(found.values, game.neurons.layer_index, found.k, getattr(own, "layer_share", 0.0))
    torch.zeros_like(mask).logical_or_(mask)
    chosen = time.perf_counter()
    return Breakdown(
        task,
        name,
        found.evaluations,
        found.evaluations * game.n_examples,
        built - started + timed.seconds,
        valued - built - timed.seconds,
        chosen - valued,
        training,
    )


def _game(moment: Moment, own: SNVConfig | SNVPaperConfig) -> Any:
    """V(S) as the run valued with it."""
    if isinstance(own, SNVPaperConfig):
        return moment.game("accuracy")
    return moment.game(silent=own.others == "silent", share_prefixes=shares_prefixes(own))


def _valued(game: Timed, own: SNVConfig | SNVPaperConfig, name: str, seed: int) -> Valuation:
    if isinstance(own, SNVPaperConfig):
        return as_printed(game, own.bandit(), seed=seed)
    return estimate(game, name, seed=seed, k=float(own.capacity), **estimator_settings(own))


def _sentence(parts: Breakdown) -> str:
    share = f", {100 * parts.total / parts.training:.1f} % of the training of a task" if parts.training else ""
    return (
        f"A valuation of task {parts.task} by {parts.estimator}: network {parts.network:.3f} s "
        f"({parts.forward_passes:,.0f} forward passes), around it {parts.around:.3f} s, mask {parts.mask:.4f} s{share}."
    )


def _giga(macs: float | None) -> str:
    return number(None if macs is None else macs / 1e9)


def _mebi(n: int | None) -> str:
    return "not recorded" if n is None else f"{n / 2**20:,.2f} MiB"

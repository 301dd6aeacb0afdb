"""The paper's tables of hyper-parameters: what was searched and what was chosen, and the same of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from snv.config import RunConfig
from snv.learners import LEARNERS, Card
from snv.report.cells import NOT_DEFINED, NOT_RUN, Cell, Column, Row, Table
from snv.report.measures import SCENARIOS, answers_for
from snv.report.settings import settings_of
from snv.runs import Result

LR = {"lr": "train.lr"}
NAMES: Mapping[str, Mapping[str, str]] = {
    "snv": {**LR, "c": "learner.capacity", "τ": "learner.floor", "α": "learner.confidence"},
    "snv-paper": {**LR, "c": "learner.capacity", "τ": "learner.floor", "α": "learner.confidence"},
    "ewc": {**LR, "λ": "learner.strength", "γ": "learner.decay"},
    "si": {**LR, "c": "learner.strength", "ξ": "learner.damping"},
    "lwf": {**LR, "α": "learner.strength", "τ": "learner.temperature", "weight decay": "train.weight_decay"},
    "nfl+": {
        **LR,
        "p": "learner.temperature",
        "Ω": "learner.reconstruction",
        "η": "learner.balance",
        "lr of the auto-encoder": "learner.lr_ae",
    },
    "pec": {**LR, "λ": "learner.strength"},
    "wsn": {**LR, "c": "learner.capacity"},
    "dcnet": {**LR, "λ": "learner.contrast"},
    "spacenet": {**LR, "s": "learner.sparsity", "λ": "learner.strength"},
    "nispa": {**LR, "s": "learner.sparsity", "λ": "learner.strength"},
    "icarl": {**LR, "weight decay": "learner.weight_decay"},
    "der++": {**LR, "α": "learner.logit_weight", "β": "learner.label_weight"},
    "dytox": LR,
}
"""The paper's symbols in our settings."""
PRESETS = {"cifar-100": "paper/cifar100", "tiny-imagenet": "paper/tiny-imagenet", "imagenet-1k": "paper/imagenet-1k"}
"""What the paper chose, by data set."""


def grids(results: Sequence[Result]) -> Table:
    """What was searched for each method: the paper's grid, and every value of the runs given."""
    columns = (Column("setting", kind="words"), Column("paper's grid", kind="words"), *_ours("searched here"))
    rows = [
        Row(method, (Cell(text=f"{symbol} = {name}"), Cell(text=_list(_card(method).space[name])), *cells))
        for method, names in NAMES.items()
        for symbol, name in names.items()
        if (cells := _values(results, method, name, NOT_DEFINED))
    ]
    note = "The paper searches on the first task's validation images, then keeps what it found for all tasks."
    return Table("grids", "Searched hyper-parameters", columns, tuple(rows), notes=(note,))


def chosen(results: Sequence[Result]) -> Table:
    """What was chosen for each method: the paper's values by data set, our defaults, and those of the runs given."""
    printed = tuple(Column(data, "paper", kind="words") for data in PRESETS)
    columns = (Column("setting", kind="words"), *printed, Column("our default", kind="words"), *_ours("in these runs"))
    rows = [
        Row(method, (Cell(text=f"{symbol} = {name}"), *_chosen(method, name), _default(method, name), *cells))
        for method, names in NAMES.items()
        for symbol, name in names.items()
        if (cells := _values(results, method, name, NOT_RUN))
    ]
    return Table("chosen", "Chosen hyper-parameters", columns, tuple(rows))


def _ours(heading: str) -> tuple[Column, ...]:
    return tuple(Column(scenario.upper(), heading, kind="words") for scenario in SCENARIOS)


def _card(method: str) -> Card:
    """The card that says what the paper printed: τ and α, which `snv` has with one estimator only, `snv-paper` has."""
    return LEARNERS["snv-paper" if method == "snv" else method].card


def _chosen(method: str, name: str) -> list[Cell]:
    chosen = [_card(method).presets[preset] for preset in PRESETS.values()]
    return [Cell(text=_list([values[name]]) if name in values else NOT_DEFINED) for values in chosen]


def _default(method: str, name: str) -> Cell:
    """Of the method, or of training."""
    told = RunConfig(method, LEARNERS[method].card.scenarios[0]).as_dict()
    part, key = name.split(".")
    return Cell(text=_list([told[part][key]]))


def _values(results: Sequence[Result], method: str, name: str, otherwise: str) -> list[Cell]:
    """All values of a setting in the runs of a method, in TIL and in CIL."""
    return [_value(results, method, scenario, name, otherwise) for scenario in SCENARIOS]


def _value(results: Sequence[Result], method: str, scenario: str, name: str, otherwise: str) -> Cell:
    if scenario not in LEARNERS[method].card.scenarios:
        return Cell(text=NOT_DEFINED)
    mine = [result for result in results if result.method == method and answers_for(result, scenario)]
    values = {settings_of(result)[name]: None for result in mine}
    ordered = sorted(values, key=lambda value: (value is not None, value))
    seeds, runs = tuple(result.seed for result in mine), tuple(result.path for result in mine)
    return Cell(text=_list(ordered) or otherwise, seeds=seeds, runs=runs)


def _list(values: Sequence[Any]) -> str:
    return ", ".join("none" if value is None else f"{value:g}" for value in values)

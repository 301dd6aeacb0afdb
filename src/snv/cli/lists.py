"""`snv list methods|spaces|datasets|networks|estimators`: what exists and what it can do."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

PAPER = ("paper/cifar100", "paper/tiny-imagenet", "paper/imagenet-1k")
"""Presets."""


class Kind(StrEnum):
    methods = "methods"
    spaces = "spaces"
    datasets = "datasets"
    networks = "networks"
    estimators = "estimators"


def register(app: typer.Typer) -> None:
    app.command("list")(list_)


def list_(
    kind: Annotated[Kind, typer.Argument(help="What to list.")],
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Methods, what the paper searched and chose for them, data sets, networks or estimators of neuron values."""
    from snv.cli.output import say_json, say_table

    listed = {
        Kind.methods: methods,
        Kind.spaces: spaces,
        Kind.datasets: datasets,
        Kind.networks: networks,
        Kind.estimators: estimators,
    }
    rows = listed[kind]()
    if as_json:
        say_json(rows)
        return
    columns = list(rows[0])
    say_table(None, columns, [[_text(row[column]) for column in columns] for row in rows])


def methods() -> list[dict[str, Any]]:
    import dataclasses

    from snv.learners import LEARNERS

    return [
        {"name": name}
        | {key: getattr(kind.card, key) for key in ("title", "scenarios", "memory", "sees", "grows")}
        | {"settings": {f.name: f.default for f in dataclasses.fields(kind.Config)}}
        for name, kind in LEARNERS.items()
    ]


def spaces() -> list[dict[str, Any]]:
    """What the paper searched, setting by setting, and what it chose; what cannot be chosen on the first task."""
    from snv.learners import LEARNERS

    rows = []
    for name, kind in LEARNERS.items():
        card = kind.card
        settings = dict.fromkeys([*card.space, *(setting for preset in card.presets.values() for setting in preset)])
        for setting in settings:
            acts = (
                "never" if setting in card.idle else "not on the first task" if setting in card.idle_first else "always"
            )
            row = {"name": name, "setting": setting, "values": list(card.space.get(setting, ())), "acts": acts}
            rows.append(row | {preset: card.presets.get(preset, {}).get(setting) for preset in PAPER})
    return rows


def datasets() -> list[dict[str, Any]]:
    from snv.data import SOURCES

    columns = ("summary", "classes", "size", "tasks", "download", "permuted")
    return [{"name": name} | {key: getattr(d, key) for key in columns} for name, d in SOURCES.items()]


def networks() -> list[dict[str, Any]]:
    from snv.networks import NETWORKS

    return [{"name": name, "summary": summary} for name, summary in NETWORKS.items()]


def estimators() -> list[dict[str, Any]]:
    """Of Shapley values, then values that come with training, then simple scores to compare with."""
    import dataclasses

    from snv.valuation import ESTIMATORS, NEED_GRADIENT, SCORES, inrun

    promises = ("promise", "unbiased", "intervals", "certifies", "needs_gradient")
    shapley = [
        {"name": name, "kind": "Shapley value"}
        | {promise: getattr(estimator, promise) for promise in promises}
        | {"settings": {f.name: f.default for f in dataclasses.fields(estimator.settings)}}
        for name, estimator in ESTIMATORS.items()
    ]
    nothing = {"unbiased": False, "intervals": False, "certifies": False}
    in_run = {"name": "in-run", "kind": "with training", "promise": _sentence(inrun)} | nothing
    scores = [
        {"name": name, "kind": "score", "promise": _sentence(score)}
        | nothing
        | {"needs_gradient": name in NEED_GRADIENT, "settings": {}}
        for name, score in SCORES.items()
    ]
    return [*shapley, in_run | {"needs_gradient": True, "settings": {}}, *scores]


def _sentence(described: object) -> str:
    """The first line of a docstring."""
    return (described.__doc__ or "").strip().split("\n")[0]


def _text(value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return ", ".join(map(str, value))
        case dict():
            return ", ".join(f"{k}={v}" for k, v in value.items()) or "–"
    return "–" if value is None else str(value)

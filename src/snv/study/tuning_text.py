"""The ledger of a search for people, and what was chosen as a file of settings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from snv.config import layered, nested
from snv.study.rungs import RULE
from snv.study.trial import Trial, as_words
from snv.study.tuning import SAW, Tuning, ranked, reached


def as_page(tuning: Tuning) -> str:
    """The ledger in Markdown."""
    config, searched, left_out = tuning.config, tuning.space.values, tuning.space.left_out
    lines = [
        f"# {config.method}, {config.scenario.upper()}, {config.data.name}: {tuning.protocol}, {tuning.sampler}",
        "",
        *_story(tuning),
        "",
        *_markdown(["searched", "values"], [[name, ", ".join(map(str, values))] for name, values in searched.items()]),
        *_markdown(["not searched", "stays at", "why"], [[n, tuning.kept(n), why] for n, why in left_out.items()]),
        *trial_table(tuning),
    ]
    return "\n".join(lines).rstrip() + "\n"


def trial_table(tuning: Tuning) -> list[str]:
    """Every trial, the best first, as lines of Markdown."""
    rows = [_row(trial, tuning) for trial in ranked(tuning.trials)]
    return _markdown(["trial", "settings", "validation accuracy", "epochs", "state"], rows)


def as_toml(tuning: Tuning) -> str:
    """The settings chosen, for ``snv run --preset`` and for ``tuned`` of a study."""
    config = tuning.config
    before, after = (percent(trial.score) for trial in (tuning.trials[0], tuning.best))
    what = f"{config.method} in {config.scenario.upper()} on {config.data.name}"
    head = [
        f"# Chosen by snv tune for {what} ({tuning.protocol}, {len(tuning.trials)} trials).",
        f"# Of the validation images {after} % are right; {before} % with the settings before.",
        f"# It saw {SAW[tuning.protocol]}.",
        *(f"# {name} stays at {tuning.kept(name)}: {why}." for name, why in tuning.space.left_out.items()),
    ]
    place = f"{_key(config.method)}.{config.scenario}"
    tables = layered(nested(name, value) for name, value in tuning.reported.items())
    alone = {name: value for name, value in tables.items() if not isinstance(value, dict)}
    parts = [_table(place, alone)] if alone else []
    parts += [_table(f"{place}.{name}", table) for name, table in tables.items() if name not in alone]
    return "\n\n".join(["\n".join(head), *parts]) + "\n"


def percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _story(tuning: Tuning) -> list[str]:
    spent, states, n_seeds = tuning.spent, [trial.state for trial in tuning.trials], len(tuning.seeds)
    counts = ", ".join(f"{states.count(state)} {words}" for state, words in STATES.items() if state in states)
    return [
        f"It saw {SAW[tuning.protocol]} ({', '.join(f'{what}: {n}' for what, n in tuning.images.items())}).",
        f"Tried: {len(states)} of {tuning.space.size} combinations, with {n_seeds} seed{'s' * (n_seeds > 1)}: "
        f"{counts}.",
        f"Spent: {spent['epochs']:,} epochs, {spent['images']:,.0f} images, {spent['macs'] / 1e9:,.1f} G "
        f"multiply-accumulates, {spent['seconds']:,.0f} seconds.",
        f"Rule: {RULE}.",
    ]


STATES = {"finished": "to the end", "given up": "given up", "failed": "failed"}


def _row(trial: Trial, tuning: Tuning) -> list[object]:
    marks = (" (as before)" if trial.number == 0 else "") + (" **chosen**" if trial is tuning.best else "")
    state = f"{trial.state} after {trial.given_up}" if trial.given_up else trial.state
    return [trial.number, as_words(trial.settings) + marks, percent(reached(trial)), trial.epochs, state]


def _markdown(head: Sequence[object], rows: Sequence[Sequence[object]]) -> list[str]:
    """A table with an empty line after it, or nothing."""
    if not rows:
        return []
    lines = [f"| {' | '.join(map(str, row))} |" for row in (head, ["---"] * len(head), *rows)]
    return [*lines, ""]


def _table(name: str, values: dict[str, Any]) -> str:
    return "\n".join([f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())])


def _key(name: str) -> str:
    """A key of TOML, quoted where it has to be."""
    return name if name.replace("-", "").isalnum() else json.dumps(name)

"""A model directory of small states, and how someone would forge it."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from snv.model import manifest
from snv.model.store import Store


def states_of(n: int) -> dict[str, object]:
    """A model of generation n: a body that never changes, and two states that do."""
    return {
        "body": {
            "weight": torch.arange(50.0),
            "frozen": torch.tensor([True, False]),
            "note": "é",
            "at": [1, None, 0.5],
        },
        "task-birds": {"weight": torch.full((300,), float(n))},
        "Task «Vögel»/../x": {"n": n},
    }


def save(path: Path, n: int = 0) -> Store:
    model = Store(path)
    with model.writing():
        model.write({"n": n, "tasks": ["birds", "Vögel"]}, states_of(n))
    return model


def file_of(model: Store, name: str) -> Path:
    return model.path / json.loads((model.path / "model.json").read_text())["files"][name]["file"]


def forge(model: Store, **changes: object) -> None:
    """Rewrite the manifest with a right checksum, as someone who knows the format would."""
    fields = json.loads((model.path / "model.json").read_text()) | changes
    del fields["checksum"]
    (model.path / "model.json").write_bytes(manifest._with_checksum(fields))

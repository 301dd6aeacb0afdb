"""Is a model on disk what was written, and does every task answer as it did? First the files, then the tasks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import nn

from snv.model.model import Model
from snv.model.proof import Verdict
from snv.model.store import Store


@dataclass(frozen=True)
class Check:
    """What is wrong with the files, one sentence each; if nothing is, what is proved of each task."""

    damage: tuple[str, ...]
    verdicts: tuple[Verdict, ...]

    @property
    def unchanged(self) -> bool:
        """Whether no file is damaged and no task has changed."""
        return not self.damage and all(verdict.unchanged for verdict in self.verdicts)


def check(path: str | Path, *, network: nn.Module | None = None) -> Check:
    """The model at ``path``, its files and its tasks; ``network`` if it was made with one of your own."""
    path = Path(path)
    store = Store(path)
    if not store.exists() and not any(path.glob("*.safetensors")):
        store.read()  # says that this is not a model; its files are none of our business
    if damage := store.damage():
        return Check(tuple(damage), ())
    return Check((), tuple(Model.open(path, network=network).verify()))

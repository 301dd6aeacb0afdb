"""What an analysis found: a dataclass of plain values, kept as JSON beside its run, so that figures need no network."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pydantic import TypeAdapter, ValidationError

from snv.errors import UserError
from snv.files import parsed_json, read_bytes, write_json


@dataclass(frozen=True)
class Shown:
    """A finding as a table of words, and what should be known when reading it."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """The result of an analysis of one run; each analysis adds its own fields."""

    name: ClassVar[str]
    method: str
    scenario: str
    seed: int

    def shown(self) -> Shown:
        """For people."""
        raise NotImplementedError

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        plain: dict[str, Any] = _finite({"analysis": self.name, **dataclasses.asdict(self)})
        return plain

    def save(self, run: Path) -> Path:
        """Written beside the run it is about; returns the file."""
        path = file_of(run, self.name)
        write_json(path, self.as_json())
        return path


F = TypeVar("F", bound=Finding)


def file_of(run: Path, name: str) -> Path:
    """Where an analysis of a run is kept: in its directory, or beside a record that was kept as one file."""
    return run.with_suffix(f".{name}.json") if run.suffix == ".json" else run / "analyses" / f"{name}.json"


def load_finding(kind: type[F], run: Path) -> F | None:
    """What `save` wrote, or None if the analysis was not made."""
    path = file_of(run, kind.name)
    if not path.exists():
        return None
    try:
        stored = parsed_json(read_bytes(path))
        del stored["analysis"]
        return TypeAdapter(kind).validate_python(stored)
    except (ValueError, KeyError, TypeError, AttributeError, ValidationError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{path} is damaged or of another version ({reason}). Make it again: snv analyse.") from None


def _finite(value: Any) -> Any:
    """The same with None for what is no number, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def finite(value: float) -> float | None:
    """A number that JSON has, or None."""
    return value if math.isfinite(value) else None


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def number(value: float | None, digits: int = 2) -> str:
    return "–" if value is None or not math.isfinite(value) else f"{value:,.{digits}f}"

"""Records to read: of run directories, and of runs kept as one JSON file each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from snv.errors import UserError
from snv.files import parsed_json, read_bytes, read_json, write_sealed
from snv.neurons import NeuronTable
from snv.runs.checked import require_record
from snv.runs.directory import RunDirectory, load_record
from snv.runs.neurons import FILE
from snv.runs.record import Record


@dataclass(frozen=True, eq=False)
class Result:
    """A record, and where it was read."""

    path: Path  # a run directory, or a JSON file
    record: Record

    @property
    def method(self) -> str:
        return str(self.record.config["method"])

    @property
    def scenario(self) -> str:
        return str(self.record.config["scenario"])

    @property
    def seed(self) -> int:
        return int(self.record.config["seed"])

    def neurons(self) -> NeuronTable | None:
        """What each neuron was worth to each task and which are in its subnetwork, if that was kept with the record."""
        file = self.path / FILE if self.path.is_dir() else self.path.with_suffix(".npz")
        return NeuronTable.load(file) if file.exists() else None

    def environment(self) -> dict[str, Any] | None:
        """What the run ran on and what was typed, if that was kept with the record."""
        file = self.path / "environment.json"
        found: dict[str, Any] | None = read_json(file) if file.exists() else None
        if not isinstance(found, dict | None):
            raise UserError(f"{file} does not describe a machine. Restore it, or remove it.")
        return found


def read_results(paths: Iterable[Path]) -> list[Result]:
    """All records in run directories, JSON files and folders that hold some of either."""
    return [_read(found) for path in paths for found in _records_in(path)]


def _records_in(path: Path) -> list[Path]:
    if path.is_file() or RunDirectory(path).is_run():
        return [path]
    below = {found.parent for found in path.glob("**/config.json") if (found.parent / "record.json").exists()}
    files = {found for found in path.glob("**/*.json") if not any(run in found.parents for run in below)}
    if not (found := sorted(below | {file for file in files if _is_record(file)})):
        raise UserError(f"There is no record in {path}. Give run directories, or a folder such as results/small-cifar.")
    return found


def _is_record(file: Path) -> bool:
    try:
        stored = parsed_json(read_bytes(file))
    except (OSError, ValueError, UserError):
        return False
    return isinstance(stored, dict) and {"config", "accuracy", "tasks_done"} <= stored.keys()


def _read(path: Path) -> Result:
    if path.is_dir():
        return Result(path, load_record(path))
    if not _is_record(path):
        raise UserError(f"{path} is not the record of a run: it lacks a config or an accuracy matrix.")
    return Result(path, record_of(read_json(path), path))


def keep_result(run: Path, file: Path) -> None:
    """A run as one JSON file, to be read by `read_results` long after its directory is gone; its neurons beside it."""
    if file.suffix != ".json":
        raise UserError(f"A record is kept as a JSON file; got {file}. Give a name such as {file.stem}.json.")
    result = _read(run)
    if (table := result.neurons()) is not None:
        table.save(file.with_suffix(".npz"))
    write_sealed(file, result.record.as_json())


def record_of(stored: dict[str, Any], where: Path = Path("This")) -> Record:
    """The inverse of `Record.as_json`, every part of it checked."""
    require_record(stored.get("config"), stored, stored.get("cost"), where)
    record = Record.blank(stored["config"], len(stored["untrained"]))
    record.load_results(stored)
    record.status, record.cost = str(stored.get("status", record.status)), stored["cost"]
    return record

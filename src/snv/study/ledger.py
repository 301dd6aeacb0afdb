"""What is there of the runs of a study: records kept, directories begun, failures noted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from snv.config import RunConfig
from snv.errors import UserError
from snv.files import read_json, write_json
from snv.runs import RunDirectory
from snv.study.expand import Job
from snv.study.fingerprint import fingerprint, fingerprint_of, restored

State = Literal["done", "partial", "failed", "running", "elsewhere", "to do"]
"""Of a run: elsewhere, another process works on it; running, one of ours does."""


@dataclass
class Standing:
    """How one run of a study stands."""

    job: Job
    record: Path  # where its record is, or will be
    directory: Path  # where it is run
    state: State = "to do"
    tasks_done: int = 0
    reason: str = ""  # why it failed
    doing: str = ""  # what it is at
    share: float = 0.0  # of that
    lost: int = 0  # processes that died under it
    seconds: float = 0.0  # of our work on it

    @property
    def failure(self) -> Path:
        """Where it is noted that the run failed."""
        return self.directory.with_name(f"{self.directory.name}.failed.json")

    def as_json(self) -> dict[str, Any]:
        """One object for machines."""
        job = self.job
        stored = json.loads(self.record.read_text(encoding="utf-8")) if self.state == "done" else {}
        return {
            "group": job.group,
            "name": job.name,
            "method": job.config.method,
            "scenario": job.config.scenario,
            "seed": job.config.seed,
            "fingerprint": job.fingerprint,
            "state": self.state,
            "tasks_done": stored.get("tasks_done", self.tasks_done),
            "record": str(self.record) if self.state == "done" else None,
            "directory": str(self.directory),
            "reason": self.reason or None,
            "metrics": stored.get("metrics"),
        }


@dataclass(frozen=True)
class Kept:
    """A finished run's record, as far as a ledger needs it."""

    path: Path
    config: RunConfig | None  # None: of a method of one's own
    cost: dict[str, Any]


@dataclass(frozen=True)
class Ledger:
    """Records below ``out`` and run directories below ``runs``, known by what they hold, not by their names."""

    out: Path
    runs: Path

    @cached_property
    def begun(self) -> dict[str, Path]:
        """Run directories by fingerprint; of equal ones the first by name."""
        found: dict[str, Path] = {}
        for path in sorted(self.runs.glob("**/config.json")):
            if (key := fingerprint_of(_json(path), path)) is not None:
                found.setdefault(key, path.parent)
        return found

    @cached_property
    def kept(self) -> dict[str, Kept]:
        """Records of finished runs by fingerprint; of equal ones the first by name."""
        found: dict[str, Kept] = {}
        for path in sorted(self.out.glob("**/*.json")):
            stored = _json(path)
            if stored.get("status") != "finished" or not {"config", "accuracy", "cost"} <= stored.keys():
                continue
            config = restored(stored["config"], path)
            key = fingerprint(config) if config is not None else fingerprint_of(stored["config"], path)
            if key is not None:
                found.setdefault(key, Kept(path, config, stored["cost"]))
        return found

    def survey(self, jobs: Sequence[Job]) -> list[Standing]:
        """How each run stands now."""
        return [self._standing(job) for job in jobs]

    def _standing(self, job: Job) -> Standing:
        key = job.fingerprint
        if key in self.kept:
            return Standing(job, self.kept[key].path, self._directory(job), "done")
        standing = Standing(job, self._record(job), self._directory(job))
        look(standing)
        return standing

    def _record(self, job: Job) -> Path:
        """By its name, unless another run has it."""
        path = self.out / f"{job.place}.json"
        return path.with_name(f"{job.name}-{job.fingerprint[:8]}.json") if path.exists() else path

    def _directory(self, job: Job) -> Path:
        """Where it was begun, else by its name, unless another run has it."""
        path = self.runs / job.place
        if job.fingerprint in self.begun:
            return self.begun[job.fingerprint]
        return path.with_name(f"{job.name}-{job.fingerprint[:8]}") if RunDirectory(path).is_run() else path


def look(standing: Standing) -> None:
    """Bring a standing up to date with what is on disk."""
    directory = RunDirectory(standing.directory)
    standing.reason, standing.tasks_done = "", _tasks_done(standing.directory)
    if _is_record_of(standing):
        standing.state = "done"
    elif directory.in_use():
        standing.state = "elsewhere"
    elif standing.failure.exists():
        noted = read_json(standing.failure)
        standing.state, standing.reason = "failed", noted["reason"]
    else:
        standing.state = "partial" if directory.is_run() else "to do"


def note_failure(standing: Standing, reason: str, details: str = "") -> None:
    """Keep why a run failed until it is tried again."""
    standing.state, standing.reason = "failed", reason
    noted = {"name": standing.job.place, "fingerprint": standing.job.fingerprint, "reason": reason, "details": details}
    write_json(standing.failure, noted)


def _is_record_of(standing: Standing) -> bool:
    stored = _json(standing.record)
    return stored.get("status") == "finished" and (
        fingerprint_of(stored.get("config", {}), standing.record) == standing.job.fingerprint
    )


def _tasks_done(directory: Path) -> int:
    return int(_json(directory / "record.json").get("tasks_done", 0))


def _json(path: Path) -> dict[str, Any]:
    """A JSON object, or an empty one if there is none to read."""
    try:
        stored = read_json(path)
    except (OSError, UserError, UnicodeDecodeError):
        return {}
    return stored if isinstance(stored, dict) else {}

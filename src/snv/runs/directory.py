"""A run on disk: what is written where, by one process at a time, so that a kill at any moment loses little.

=========================  ============================================================================================
``config.json``            what was asked for
``environment.json``       versions, commit, hardware, and the choices that followed from them
``record.json``            accuracy matrix and status
``log.jsonl``              one line per epoch
``neurons.npz``            values and masks of neurons, task by task, of methods that have them
``costs.json``             seconds, memory, latency: what differs from machine to machine
``analyses/``              what `snv analyse` found
``checkpoints/``           ``task-03.safetensors`` after task 3, ``now.safetensors`` within a task
``lock``, ``owner.json``   who is writing
=========================  ============================================================================================

The newest checkpoint holds the record and the log up to its own moment; the files beside it are copies for people.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from snv.errors import InUseError, UserError
from snv.files import (
    State,
    load_state,
    parsed_json,
    read_bytes,
    read_json,
    save_state,
    sweep,
    write_json,
    write_sealed,
    write_text,
)
from snv.machine import ranks
from snv.runs.checked import fitting, require_record
from snv.runs.record import Record

log = logging.getLogger(__name__)

OURS = {"lock", "owner.json", "checkpoints", "environment.json", "record.json", "log.jsonl", "costs.json"}
"""What a run writes before ``config.json``, which makes it one."""


class RunDirectory:
    """Paths, lock, checkpoints of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self._lock = FileLock(path / "lock", timeout=0)

    # ---- who may write

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the directory; a second process is refused. The operating system frees the lock of a killed one.

        Of processes that work together the first holds it for all.
        """
        self._acquire()
        try:
            self._begin()
            yield
        finally:
            self._release()

    @ranks.told
    def _acquire(self) -> None:
        make_directory(self.path)
        if os.path.lexists(self.path / "lock") and not self._lock_is_plain():
            raise UserError(f"{self.path / 'lock'} is a link or no file, as no run makes one. Remove it.")
        try:
            self._lock.acquire()
        except Timeout:
            raise InUseError(
                f"{self.path} is in use by {self._owner()}. Wait until it has finished, or choose another --out."
            ) from None

    @ranks.told
    def _begin(self) -> None:
        self.checkpoints.mkdir(exist_ok=True)
        sweep(self.path)
        sweep(self.checkpoints)
        write_json(self.path / "owner.json", {"pid": os.getpid(), "host": socket.gethostname()})

    @ranks.by_first
    def _release(self) -> None:
        (self.path / "owner.json").unlink(missing_ok=True)
        self._lock.release()

    def in_use(self) -> bool:
        """Whether a process holds the directory now."""
        if not self._lock_is_plain() or not os.access(self.path / "lock", os.W_OK):
            return False
        lock = FileLock(self.path / "lock", timeout=0)
        try:
            with lock:
                return False
        except Timeout:
            return True

    def _lock_is_plain(self) -> bool:
        """Whether there is a lock, and it is a file of the run: locking a link would empty, or make, another's."""
        lock = self.path / "lock"
        return lock.is_file() and not lock.is_symlink()

    def _owner(self) -> str:
        try:
            owner = read_json(self.path / "owner.json")
            return f"process {owner['pid']} on {owner['host']}"
        except (OSError, UserError, KeyError, TypeError):
            return "another process"

    # ---- what was asked for

    @ranks.told
    def is_run(self) -> bool:
        return (self.path / "config.json").exists()

    @ranks.told
    def check_is_ours(self) -> None:
        """Refuse a directory that holds something else."""
        if self.path.is_dir() and not self.is_run():
            others = sorted(p.name for p in self.path.iterdir() if p.name not in OURS and p.suffix != ".tmp")
            if others:
                raise UserError(f"{self.path} exists and holds no run (found {others[0]}). Choose another --out.")

    @ranks.told
    def read(self, name: str) -> Any:
        return read_json(self.path / name)

    @ranks.by_first
    def write(self, name: str, value: dict[str, Any]) -> None:
        write_sealed(self.path / name, value)

    # ---- checkpoints

    @ranks.told
    def newest(self) -> State | None:
        """The state furthest on, or None at the very start.

        A damaged checkpoint is told of and passed over: from the one before, the run comes to the same bits.
        """
        now = [path for path in [self.checkpoints / "now.safetensors"] if path.exists()]
        tasks = sorted(self.checkpoints.glob("task-*.safetensors"), reverse=True)
        damage: list[UserError] = []
        states = [state for paths in (now, tasks) if (state := _first_whole(paths, damage)) is not None]
        if damage and not states:
            raise damage[0]
        for error in damage:
            log.warning("%s The run goes on from an earlier checkpoint.", error)
        with fitting(self.checkpoints):
            return max(states, key=lambda state: (state["task"], state["stage"]), default=None)

    @ranks.by_first
    def save_now(self, state: State) -> None:
        """A state within a task."""
        save_state(self.checkpoints / "now.safetensors", state)

    @ranks.by_first
    def save_task(self, n_done: int, state: State, keep: str) -> None:
        """The state after ``n_done`` tasks."""
        save_state(self.task_path(n_done), state)
        (self.checkpoints / "now.safetensors").unlink(missing_ok=True)
        if keep == "last":
            for old in self.checkpoints.glob("task-*.safetensors"):
                if old != self.task_path(n_done):
                    old.unlink()

    def task_path(self, n_done: int) -> Path:
        return self.checkpoints / f"task-{n_done:03d}.safetensors"

    @ranks.by_first
    def write_log(self, entries: list[dict[str, Any]]) -> None:
        write_text(self.path / "log.jsonl", "".join(json.dumps(entry) + "\n" for entry in entries))

    @ranks.told
    def measured(self) -> dict[str, Any]:
        """What earlier work on the run has cost; nothing, if that is not known."""
        known = (self.path / "costs.json").exists()
        return read_json(self.path / "costs.json") if known else {}

    def bytes_on_disk(self) -> int:
        """Of the newest task checkpoint."""
        paths = sorted(self.checkpoints.glob("task-*.safetensors"))
        return paths[-1].stat().st_size if paths else 0


def _first_whole(paths: Sequence[Path], damage: list[UserError]) -> State | None:
    """The first checkpoint that can be read; what is wrong with those before it is added to ``damage``."""
    for path in paths:
        try:
            return load_state(path)
        except UserError as error:
            damage.append(error)
    return None


@ranks.told
def load_record(path: Path) -> Record:
    """The record of a run directory, finished or not."""
    directory = RunDirectory(path)
    if not directory.is_run():
        raise UserError(f"{path} is not a run directory: it has no config.json. Give the --out of a `snv run`.")
    config, stored = directory.read("config.json"), directory.read("record.json")
    costs = directory.measured()
    if isinstance(costs, dict) and isinstance(stored, dict):
        costs["macs"] = stored.get("macs", {})
    require_record(config, stored, costs, path)
    record = Record.blank(config, len(stored["untrained"]))
    record.load_results(stored)
    record.cost, record.status = costs, str(stored.get("status", record.status))
    if record.status != "finished":
        record.status = "running" if directory.in_use() else "interrupted"
    return record


def load_log(path: Path) -> list[dict[str, Any]]:
    """What a run directory's log says of every epoch."""
    try:
        return [parsed_json(line) for line in read_bytes(path / "log.jsonl").splitlines()]
    except (OSError, ValueError) as error:
        raise UserError(f"{path / 'log.jsonl'} is no log of a run ({error}). Restore it from a copy.") from None


def find_runs(folder: Path) -> list[Path]:
    """The run directories in a folder and below it, or the folder itself if it is one."""
    if RunDirectory(folder).is_run():
        return [folder]
    below = sorted(path.parent for path in folder.glob("**/config.json") if (path.parent / "record.json").exists())
    if not below:
        raise UserError(f"There is no run in {folder}: no config.json was found. Give the --out of a `snv run`.")
    return below


def make_directory(path: Path) -> None:
    """Create it, and find out now rather than in an hour that nothing can be written there."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / ".writable.tmp"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        reason = "is a file, or lies inside one" if error.errno in (errno.EEXIST, errno.ENOTDIR) else error.strerror
        raise UserError(f"Results cannot be written to {path}: it {reason}. Choose another --out.") from None


@ranks.told
def require_space(path: Path, wanted: int) -> None:
    """Refuse to start what will not fit on the disk."""
    existing = path.absolute()
    while not existing.exists():
        existing = existing.parent
    free = shutil.disk_usage(existing).free
    if free < wanted:
        raise UserError(
            f"The run needs about {wanted / 2**20:,.0f} MiB for its checkpoints, but {existing} has "
            f"{free / 2**20:,.0f} MiB free. Free some space, choose another --out, or set keep=last."
        )

"""A model on disk: a directory of tensors, and one manifest that names, measures and hashes every file of it.

============================  ==========================================================================================
``model.json``                format, version of snv, the caller's content, length and BLAKE2b of every file, a checksum
``body-3f2a….safetensors``    one state; the name carries the hash, so a file with this name never changes
``lock``                      always empty; held by the process that writes
============================  ==========================================================================================

Saving puts new files beside the old ones, then replaces the manifest at once, then removes what it names no more: a
kill at any moment leaves the old model or the new one, and readers need no lock. ``format``, ``snv`` and ``checksum``
keep their meaning in every format to come.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
from filelock import FileLock, Timeout
from safetensors.torch import load, save
from torch import Tensor

from snv import __version__
from snv.errors import UserError
from snv.files import State, pack, unpack, write_atomic
from snv.model.manifest import FILE, FORMAT, MANIFEST, Entry, Manifest, digest, parsed, rendered

LOCK = "lock"
LARGEST_MANIFEST = 64 * 2**20
ATTEMPTS = 20  # how often a reader may be overtaken by writers
OPENING = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True)
class Stored:
    """A model as it was read: what its writer put into the manifest, and the states by name."""

    content: Any
    states: dict[str, State]


UPGRADES: dict[int, Callable[[Stored], Stored]] = {
    1: lambda stored: stored,  # what is not there was not certified
    2: lambda stored: stored,  # zeros are not read; others are refused where they are found
    3: lambda stored: stored,  # specialists alone, as they were learned
}
"""What makes a model of format k + 1 out of one of format k, by k."""


class Store:
    """One model directory: `read` and `damage` at any time, `write` inside `writing`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writing = False

    def exists(self) -> bool:
        """Whether there is a model here, sound or not."""
        return os.path.lexists(self.path / MANIFEST)

    # ---- reading

    def read(self) -> Stored:
        """The model, every byte of it checked; if a writer replaces it meanwhile, the newer one."""
        for _ in range(ATTEMPTS):
            manifest = self._manifest()
            try:
                states = {name: self._state(entry) for name, entry in manifest.files.items()}
            except FileNotFoundError as missing:
                if self._manifest() == manifest:
                    raise UserError(_missing(Path(missing.filename))) from None
                continue
            return self._upgraded(manifest.format, Stored(manifest.content, states))
        raise UserError(f"{self.path} was replaced {ATTEMPTS} times while it was read. Try again when it is at rest.")

    def damage(self) -> list[str]:
        """Every problem of the directory, one sentence each; empty if it is as it was written.

        What a killed writer left behind is not damage: the next `write` removes it.
        """
        self._require_directory()
        problems: list[str] = []
        for _ in range(ATTEMPTS):
            before = self._glance()
            problems = self._problems()
            if not problems or self._glance() == before:
                break  # otherwise a writer came in between
        return problems

    def _problems(self) -> list[str]:
        problems, entries = [], list[Entry]()
        try:
            entries = list(self._manifest().files.values())
        except UserError as error:
            problems.append(str(error))
        for entry in entries:
            try:
                self._state(entry)
            except FileNotFoundError:
                problems.append(_missing(self.path / entry.file))
            except UserError as error:
                problems.append(str(error))
        named = {MANIFEST, *(entry.file for entry in entries)}
        for path in sorted(self.path.iterdir()):
            if path.name not in named:
                problems += _wrong_with_unnamed(path)
        return problems

    def _glance(self) -> bytes | None:
        """The manifest as it is now, whatever it holds."""
        with suppress(OSError, UserError):
            return _contents(self.path / MANIFEST, LARGEST_MANIFEST)
        return None

    def _require_directory(self) -> None:
        if not self.path.exists():
            raise UserError(f"There is no model at {self.path}: nothing is there. Check the path.")
        if not self.path.is_dir():
            raise UserError(f"{self.path} is not a model: it is a file, and a model is a directory. Check the path.")

    def _manifest(self) -> Manifest:
        self._require_directory()
        path = self.path / MANIFEST
        try:
            return parsed(_contents(path, LARGEST_MANIFEST), path)
        except FileNotFoundError:
            raise UserError(f"{self.path} is not a model: {MANIFEST} is missing. Check the path.") from None

    def _state(self, entry: Entry) -> State:
        """One state out of exactly the bytes that were checked."""
        path = self.path / entry.file
        data = _contents(path, entry.bytes)
        if len(data) != entry.bytes:
            raise UserError(f"{path} has {len(data):,} bytes instead of {entry.bytes:,}. Restore it from a copy.")
        if digest(data) != entry.blake2b:
            raise UserError(f"{path} was edited or damaged: its checksum is wrong. Restore it from a copy.")
        return _deserialised(data, path)

    def _upgraded(self, version: int, stored: Stored) -> Stored:
        for k in range(version, FORMAT):
            if k not in UPGRADES:
                raise UserError(f"{self.path} is of format {k}, which snv {__version__} cannot read. Use an older snv.")
            stored = UPGRADES[k](stored)
        return stored

    # ---- writing

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the directory, made if need be; a second writer is refused, readers go on.

        The operating system frees the lock of a killed process.
        """
        lock = FileLock(self.path / LOCK, timeout=0)
        try:
            self._make_room()
            lock.acquire()
        except Timeout:
            raise UserError(f"{self.path} is being changed by another process. Wait until it has finished.") from None
        except OSError as error:
            raise UserError(f"{self.path} cannot be written ({error.strerror}). Choose another path.") from None
        self._writing = True
        try:
            yield
        finally:
            self._writing = False
            lock.release()

    def write(self, content: Any, states: dict[str, State]) -> None:
        """Replace the model; ``content`` is JSON. Only files with new content are written."""
        if not self._writing:
            raise RuntimeError("a model is written only inside `with store.writing()`")
        content = json.loads(json.dumps(content, allow_nan=False))  # as it will be read: tuples are lists, keys strings
        try:
            entries = {name: self._saved(name, state) for name, state in states.items()}
            manifest = rendered(content, entries)
            if len(manifest) > LARGEST_MANIFEST:
                raise UserError(f"{self.path} would need a manifest of {len(manifest):,} bytes. Shorten its names.")
            _put(self.path / MANIFEST, manifest)
        except OSError as error:
            raise UserError(
                f"{self.path} could not be saved ({error.strerror}); what it held before is intact. Free some space or "
                "allow writing, then try again."
            ) from None
        self._remove_all_but({entry.file for entry in entries.values()})

    def _make_room(self) -> None:
        """The directory itself, unless something else is in its place."""
        if self.path.exists():
            self._require_directory()
        self.path.mkdir(parents=True, exist_ok=True)
        others = sorted(p.name for p in self.path.iterdir() if p.name != LOCK and not _may_remove(p.name))
        if others and not self.exists():
            raise UserError(f"{self.path} exists and holds no model (found {others[0]}). Choose another path.")
        if (self.path / LOCK).is_symlink():
            raise UserError(f"{self.path / LOCK} is a symbolic link, which a model does not contain. Remove it.")

    def _saved(self, name: str, state: State) -> Entry:
        """The state in a file named after its content, which is written unless it is there."""
        data = _serialised(state)
        blake2b = digest(data)
        slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60] or "state"
        entry = Entry(f"{slug}-{blake2b[:16]}.safetensors", len(data), blake2b)
        try:
            there = _contents(self.path / entry.file, entry.bytes) == data
        except (FileNotFoundError, UserError):
            there = False
        if not there:
            _put(self.path / entry.file, data)
        return entry

    def _remove_all_but(self, named: set[str]) -> None:
        for path in self.path.iterdir():
            if _may_remove(path.name) and path.name not in named:
                with suppress(OSError):  # Windows keeps a file while someone reads it; a later save removes it
                    path.unlink()


def _may_remove(name: str) -> bool:
    """Whether a file has a name that only this class gives."""
    return FILE.fullmatch(name) is not None or (name.startswith(".") and name.endswith(".tmp"))


def _wrong_with_unnamed(path: Path) -> list[str]:
    """What is wrong with a file that the manifest does not name."""
    try:
        if path.name == LOCK:
            _contents(path, 0)
            return []
        if path.name.endswith(".tmp") and _may_remove(path.name) and not path.is_symlink():
            return []  # half a file, of a writer at work or killed
        if FILE.fullmatch(path.name) and path.name.endswith(
            f"-{digest(_contents(path, sys.maxsize))[:16]}.safetensors"
        ):
            return []  # a whole file, which its writer was about to name or to remove
    except FileNotFoundError:
        return []  # its writer has just removed it
    except UserError as error:
        return [str(error)]
    return [f"{path} does not belong to the model. Remove it."]


def _missing(path: Path) -> str:
    return f"{path} is missing. Restore it from a copy."


# ---- bytes


def _contents(path: Path, most: int) -> bytes:
    """All bytes of a file; links are not followed, and nothing longer than ``most`` is read."""
    mode = path.lstat().st_mode
    if not stat.S_ISREG(mode):
        kind = "a symbolic link" if stat.S_ISLNK(mode) else "not an ordinary file"
        raise UserError(f"{path} is {kind}, which a model does not contain. Remove it, or restore it from a copy.")
    try:
        with os.fdopen(os.open(path, OPENING), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > most:
                raise UserError(f"{path} has {size:,} bytes instead of at most {most:,}. Restore it from a copy.")
            return file.read()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}). Check the disk and the permissions.") from None


def _put(path: Path, data: bytes) -> None:
    def write(temporary: Path) -> None:
        temporary.write_bytes(data)

    write_atomic(path, write)


# ---- states


def _serialised(state: State) -> bytes:
    """What `snv.files.save_state` writes, as bytes."""
    tensors: dict[str, Tensor] = {}
    tree = json.dumps(pack(state, "", tensors), allow_nan=True, separators=(",", ":"))
    return save(tensors, metadata={"state": tree})


def _deserialised(data: bytes, path: Path) -> State:
    try:
        tensors = load(data)
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + length])
        return unpack(json.loads(header["__metadata__"]["state"]), tensors)
    except (safetensors.SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise UserError(f"{path} is not a state saved by snv ({error}). Restore it from a copy.") from None

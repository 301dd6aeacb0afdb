"""A run directory whose lasting copy is at a URL: a bucket, a server, a folder; whatever fsspec reads and writes.

Every file goes up under another name first and is then put in its place, checkpoints before what speaks of them. So the
copy is at every moment a directory as a kill could have left it, and a run that finds it goes on from there.
"""

from __future__ import annotations

import importlib
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from snv.errors import UserError

HELD_HERE = ("lock", "owner.json")
"""Says who works on a directory, which is nobody else's business."""

LAST = ("record.json", "config.json")
"""What says that there is a run, and how far it is."""

Wanted = Callable[[str], bool]
"""Whether a file belongs to the copy, by its name within the folder."""


class Stamp(NamedTuple):
    """Changes when a file does."""

    modified: int
    size: int


def is_url(place: str | Path) -> bool:
    return "://" in str(place)


def everything(_name: str) -> bool:
    return True


def but_checkpoints(name: str) -> bool:
    return not name.endswith(".safetensors")


class Mirror:
    """A folder of this machine and its copy."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url
        self._files, self._root = _file_system(url)
        self._same: dict[str, Stamp] = {}  # files that are there as they are here
        self._made: set[str] = set()  # folders

    def pull(self, wanted: Wanted = everything) -> None:
        """Fetch what is there."""
        with self._told("read"):
            self._files.invalidate_cache()
            found = [path.removeprefix(self._root).lstrip("/") for path in self._files.find(self._root)]
            names = [name for name in found if _is_ours(name) and wanted(name)]
            for name in names:
                (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            there, here = [f"{self._root}/{name}" for name in names], [str(self.folder / name) for name in names]
            self._files.get(there, here)  # many at a time, where the store can
        self._same |= {name: _stamp(self.folder / name) for name in names}

    def push(self, wanted: Wanted = everything) -> None:
        """Bring the copy up to date with what has changed here."""
        here = {name: _stamp(self.folder / name) for name in _names(self.folder) if wanted(name)}
        with self._told("written"):
            for name in sorted(here, key=_order):
                if self._same.get(name) != here[name]:
                    self._put(name)
                    self._same[name] = here[name]
            for name in [name for name in self._same if wanted(name) and name not in here]:
                self._files.rm_file(f"{self._root}/{name}")
                del self._same[name]

    def remove(self, folder: str) -> None:
        """A folder of the copy."""
        with self._told("written"):
            if self._files.exists(f"{self._root}/{folder}"):
                self._files.rm(f"{self._root}/{folder}", recursive=True)

    def check(self) -> None:
        """Find out now rather than in an hour that nothing can be written there."""
        with self._told("written"):
            probe = f"{self._root}/.{uuid.uuid4().hex}.tmp"
            self._files.makedirs(self._root, exist_ok=True)
            self._files.pipe_file(probe, b"")
            self._files.rm_file(probe)

    def _put(self, name: str) -> None:
        path = f"{self._root}/{name}"
        above, _, last = path.rpartition("/")
        temporary = f"{above}/.{last}.{uuid.uuid4().hex}.tmp"
        if above not in self._made:
            self._files.makedirs(above, exist_ok=True)
            self._made.add(above)
        self._files.put_file(str(self.folder / name), temporary)
        self._files.mv(temporary, path)

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # every store has errors of its own
            raise UserError(f"{self.url} cannot be {what}: {type(error).__name__}: {error}") from error


@contextmanager
def mirrored(folder: Path, url: str | None) -> Iterator[Callable[[], None]]:
    """Work in a folder as its copy has it; the function given brings the copy up to date, and so does the end."""
    if url is None:
        yield lambda: None
        return
    mirror = Mirror(folder, url)
    mirror.pull()
    try:
        yield mirror.push
    finally:
        mirror.push()


def _file_system(url: str) -> tuple[Any, str]:
    try:
        fsspec: Any = importlib.import_module("fsspec")
    except ImportError:
        raise UserError(f"{url} needs the package fsspec. Use pip install 'snv[ray]'.") from None
    try:
        files, root = fsspec.url_to_fs(url)
    except (ImportError, ValueError) as error:  # the package of this kind of store, or there is no such kind
        raise UserError(f"{url} cannot be opened: {error}") from None
    return files, root.rstrip("/")


def _names(folder: Path) -> list[str]:
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    return [name for name in names if _is_ours(name)]


def _is_ours(name: str) -> bool:
    last = name.rpartition("/")[2]
    return last not in HELD_HERE and not last.endswith(".tmp")


def _order(name: str) -> tuple[int, bool, str]:
    """Checkpoints, then what else there is, then what says so."""
    last = name.rpartition("/")[2]
    return LAST.index(last) + 1 if last in LAST else 0, but_checkpoints(name), name


def _stamp(path: Path) -> Stamp:
    known = path.stat()
    return Stamp(known.st_mtime_ns, known.st_size)

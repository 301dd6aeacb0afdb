"""Where a model lives, if anywhere: one writer at a time, and nobody's work is overwritten."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from snv.errors import UserError
from snv.files import State, read_bytes
from snv.model.manifest import MANIFEST
from snv.model.store import Store, Stored


class Directory:
    """A model's directory and what was last seen in it; without a path, the model lives in memory."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._seen: bytes | None = None  # the manifest when it was last read or written
        self._store: Store | None = None  # while it is held

    def read(self) -> Stored:
        assert self.path is not None
        self._seen = _manifest(self.path)
        return Store(self.path).read()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """The directory, if any, is ours for as long as this lasts, and holds what we last saw in it."""
        if self.path is None or self._store is not None:
            yield
            return
        store = Store(self.path)
        with store.writing():
            self._require_unchanged(self.path)
            self._store = store
            try:
                yield
            finally:
                self._store = None

    def write(self, content: dict[str, Any], states: dict[str, State]) -> None:
        """Replace what is there, inside `writing`; a model in memory is not written."""
        if self._store is not None:
            self._store.write(content, states)
            self._seen = _manifest(self._store.path)

    def files(self) -> dict[str, int]:
        """Bytes of every file."""
        files = sorted(self.path.iterdir()) if self.path is not None and self.path.is_dir() else []
        return {file.name: file.stat().st_size for file in files if file.is_file()}

    def _require_unchanged(self, path: Path) -> None:
        """There is neither another model, nor what another process has learned meanwhile."""
        now = _manifest(path)
        if now is not None and self._seen is None:
            raise UserError(f"{path} holds a model already. Open it, or choose another name.")
        if now is not None and now != self._seen:
            raise UserError(f"{path} was changed by another process since it was opened. Open it again, then repeat.")


def _manifest(path: Path) -> bytes | None:
    """The manifest of a directory as it is now, if there is one."""
    with suppress(OSError, UserError):
        return read_bytes(path / MANIFEST)
    return None

"""What ``model.json`` says: the format, the version of snv, the caller's content, and every file with its hash."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from snv import __version__
from snv.errors import UserError

FORMAT = 4
"""1 had no certificates of evidence, names and temperatures; 2 had zeros for the responses of silent neurons; 3 had no
common space."""
MANIFEST = "model.json"
FILE = re.compile(r"[a-z0-9-]+-[0-9a-f]{16}\.safetensors")


@dataclass(frozen=True)
class Entry:
    """What the manifest says about one file."""

    file: str
    bytes: int
    blake2b: str


@dataclass(frozen=True)
class Manifest:
    """What ``model.json`` says, its checksum verified."""

    format: int
    content: Any
    files: dict[str, Entry]


def digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=32).hexdigest()


def rendered(content: Any, entries: dict[str, Entry]) -> bytes:
    """The manifest of this version; ``content`` is JSON."""
    files = {name: asdict(entry) for name, entry in entries.items()}
    return _with_checksum({"format": FORMAT, "snv": __version__, "content": content, "files": files})


def parsed(data: bytes, path: Path) -> Manifest:
    """The manifest, if it is byte for byte what `rendered` writes and names nothing but files beside it."""
    damaged = UserError(f"{path} was edited or damaged: its checksum is wrong. Restore it from a copy.")
    try:
        fields = json.loads(data)
        if isinstance(fields, dict) and isinstance(version := fields.get("format"), int) and version > FORMAT:
            raise UserError(
                f"{path} is of format {version}, and snv {__version__} reads formats up to {FORMAT}. It needs snv "
                f"{fields.get('snv')} or newer: pip install --upgrade snv"
            )
        fields.pop("checksum")
        intact = _with_checksum(fields) == data
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        raise damaged from None
    match fields:
        case {"format": int(version), "content": content, "files": dict(files)} if intact:
            entries = {name: _entry(value, path) for name, value in files.items()}
            if len({entry.file for entry in entries.values()}) < len(entries):
                raise UserError(f"{path} names a file twice, which no model does. Do not use this model.")
            return Manifest(version, content, entries)
    raise damaged


def _with_checksum(fields: dict[str, Any]) -> bytes:
    """The one way to write these fields, with their checksum: the hash of their canonical JSON."""
    canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return (json.dumps({**fields, "checksum": digest(canonical.encode())}, indent=1, allow_nan=False) + "\n").encode()


def _entry(value: Any, path: Path) -> Entry:
    match value:
        case {"file": str(file), "bytes": int(size), "blake2b": str(blake2b)} if FILE.fullmatch(file):
            return Entry(file, size, blake2b)
    raise UserError(f"{path} names a file that no model contains ({str(value)[:200]}). Do not use this model.")

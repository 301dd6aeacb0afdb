"""Compressed files read within limits: what they say of themselves is not believed, and nothing is unpacked to disk."""

from __future__ import annotations

import gzip
import io
import lzma
import math
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from numpy.lib import format as npy
from numpy.typing import NDArray

BROKEN = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError, struct.error),
    *(ValueError, KeyError, TypeError, IndexError, OverflowError, NotImplementedError),
    *(RuntimeError, MemoryError, SyntaxError),
)
"""What Python's own readers raise where a file is not what it should be; a password is a RuntimeError."""
MODEST = 2**30
"""Bytes that any file may unpack to."""
TIMES = 10
"""Times its own size that a larger file may unpack to."""


class TooLargeError(ValueError):
    """A file holds more than it may."""


def gunzipped(path: Path, most: int) -> bytes:
    """The contents of a file, unpacked if its name ends in .gz; more than ``most`` bytes are not read."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise TooLargeError(f"it holds more than {most:,} bytes")
    return data


def tar_members(path: Path, wanted: Iterable[str], most: int) -> dict[str, bytes]:
    """Ordinary files of a .tar.gz by the last part of their names; of all it holds, ``most`` bytes are read.

    Links, devices and folders are passed over, and folders in names mean nothing, since nothing is written anywhere.
    """
    names, found = set(wanted), dict[str, bytes]()
    with gzip.open(path) as stream, tarfile.open(fileobj=_Bounded(stream, most), mode="r|") as archive:
        for member in archive:
            name = member.name.rsplit("/", 1)[-1]
            if member.isreg() and name in names and (file := archive.extractfile(member)):
                found[name] = file.read()
            archive.members = []  # type: ignore[attr-defined]  # or it would remember them all
    return found


class _Bounded(io.RawIOBase):
    """A stream that ends with an error once too much was read from it."""

    def __init__(self, stream: gzip.GzipFile, most: int) -> None:
        self._stream, self._most, self._left = stream, most, most

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(self._left + 1 if size < 0 else min(size, self._left + 1))
        self._left -= len(data)
        if self._left < 0:
            raise TooLargeError(f"it unpacks to more than {self._most:,} bytes")
        return data


def zip_member(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    """One file of a zip; more than ``most`` bytes are neither believed nor read."""
    with archive.open(name) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise TooLargeError(f"{name} holds more than {most:,} bytes")
    return data


def read_npz(path: Path, names: Iterable[str]) -> dict[str, NDArray[Any]]:
    """Arrays of a NumPy archive by name: of plain numbers or strings, and together no larger than `require_modest`."""
    with path.open("rb") as stream, zipfile.ZipFile(stream) as archive:
        members = {name: archive.getinfo(f"{name}.npy") for name in names}
        require_modest(path, sum(member.file_size for member in members.values()))
        return {name: _array(archive, member) for name, member in members.items()}


def require_modest(path: Path, unpacked: int) -> None:
    """Refuse what grows out of proportion: more than 1 GiB, unless the file itself has at least a tenth of that."""
    if unpacked > max(MODEST, TIMES * path.stat().st_size):
        raise TooLargeError(f"it would unpack to {unpacked:,} bytes, as files made to exhaust memory do")


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    """An array that is as large as its place in the archive, which is found out before there is room made for it."""
    with archive.open(member) as file:
        version = npy.read_magic(file)
        if version not in HEADERS:
            raise ValueError(f"{member.filename} is of version {version}")
        shape, _, kind = HEADERS[version](file)
        if kind.hasobject or math.prod(shape) * kind.itemsize != member.file_size - file.tell():
            raise ValueError(f"{member.filename} does not hold the {kind} of shape {shape} it announces")
    with archive.open(member) as file:
        array: NDArray[Any] = npy.read_array(file, allow_pickle=False)
    return array


HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}

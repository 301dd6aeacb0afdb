"""Images decoded once and mapped from disk ever after, unless their files changed or the cache is damaged."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from snv.data.locate import Progress, cache_dir
from snv.errors import UserError
from snv.files import sweep, write_atomic, write_json

VERSION = 1  # of the layout and of the decoding; a change makes old caches stale
CHUNK = 1 << 24  # bytes checked at a time


@dataclass(frozen=True)
class Pool:
    """All images (n, c, h, w) of a dataset with their labels; ``images`` is mapped from the cache, read-only."""

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    class_names: tuple[str, ...]
    checksum: int  # of the images
    file: Path
    state: FileState

    def check(self) -> None:
        """Refuse images whose file was written to since they were checked; one put in its place changes nothing."""
        if self.file.exists() and (now := FileState.of(self.file)).inode == self.state.inode and now != self.state:
            raise UserError(
                f"{self.file} was changed while it was in use. Run the same command again: it is checked, and made "
                "anew if a bit of it is wrong."
            )


class FileState(NamedTuple):
    """What of a file changes when it is written to."""

    inode: int
    size: int
    time: int

    @classmethod
    def of(cls, path: Path) -> FileState:
        found = path.stat()
        return cls(found.st_ino, found.st_size, found.st_mtime_ns)


@dataclass(frozen=True)
class Decoding:
    """A dataset about to be decoded: its labels, and its images (c, h, w) one after the other."""

    labels: NDArray[np.int64]
    class_names: tuple[str, ...]
    images: Iterable[NDArray[np.uint8]]


def mark_of(paths: Iterable[Path]) -> str:
    """A digest of names, sizes and times of change: another one whenever a file was replaced, added or removed."""
    digest = hashlib.blake2b(digest_size=16)
    for path in paths:
        state = path.stat()
        digest.update(f"{path!s}\0{state.st_size}\0{state.st_mtime_ns}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


def cached(
    name: str,
    where: Path,
    shape: tuple[int, int, int],
    mark: str,
    decode: Callable[[], Decoding],
    progress: Progress,
) -> Pool:
    """The images of dataset ``name`` at ``where``: from the cache if it is whole and bears ``mark``, else decoded.

    Processes that start at once wait for the first, which decodes for all.
    """
    place = hashlib.blake2b(f"{where.resolve()}".encode(errors="surrogateescape"), digest_size=8).hexdigest()
    folder = cache_dir() / "images" / f"{name}-{shape[1]}px-{place}"
    stamp = {"version": VERSION, "name": name, "shape": list(shape), "mark": mark}
    if pool := _read(folder, stamp):
        return pool
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / "lock"):
            if pool := _read(folder, stamp):
                return pool
            sweep(folder)
            _write(folder, stamp, decode(), progress)
    except OSError as error:
        raise UserError(
            f"The image cache {folder} cannot be written ({error.strerror or error}). "
            "Make room there, or set SNV_CACHE to another folder."
        ) from None
    pool = _read(folder, stamp)
    if pool is None:
        raise UserError(f"The image cache {folder} does not hold what was written to it. Check the disk.")
    return pool


def _write(folder: Path, stamp: dict[str, Any], decoding: Decoding, progress: Progress) -> None:
    """Images first, the description that makes them valid last."""
    shape = (len(decoding.labels), *stamp["shape"])
    checksum = 0

    def stream(temporary: Path) -> None:
        nonlocal checksum
        header = {"descr": "|u1", "fortran_order": False, "shape": shape}
        with temporary.open("wb") as file:  # plain writes: a full disk is an error here, but a crash in a mapping
            np.lib.format.write_array_header_1_0(file, header)
            for done, image in enumerate(decoding.images, 1):
                data = image.tobytes()
                file.write(data)
                checksum = zlib.crc32(data, checksum)
                if done % 256 == 0 or done == shape[0]:
                    progress(f"Decoding {stamp['name']}", done, shape[0])

    write_atomic(folder / "images.npy", stream)
    labels = decoding.labels.tolist()
    write_json(
        folder / "about.json", {**stamp, "checksum": checksum, "classes": list(decoding.class_names), "labels": labels}
    )


def _read(folder: Path, stamp: dict[str, Any]) -> Pool | None:
    """The cached dataset, or None if there is none, it is of other files, or a bit of it is wrong."""
    try:
        about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
        if {key: about[key] for key in stamp} != stamp:
            return None
        file = folder / "images.npy"
        state = FileState.of(file)
        images = np.load(file, mmap_mode="r", allow_pickle=False)
        labels = np.array(about["labels"], np.int64)
        whole = images.dtype == np.uint8 and images.shape == (len(labels), *stamp["shape"])
        if not whole or checksum_of(images) != about["checksum"]:
            return None
        return Pool(images, labels, tuple(about["classes"]), about["checksum"], file, state)
    except (OSError, ValueError, KeyError, TypeError, EOFError):
        return None


def checksum_of(images: NDArray[np.uint8]) -> int:
    """CRC-32 of the pixels."""
    data = np.asarray(images).reshape(-1)
    checksum = 0
    for start in range(0, data.size, CHUNK):
        checksum = zlib.crc32(data[start : start + CHUNK].data, checksum)
    return checksum

"""Tiny-ImageNet (Le and Yang, 2015): 200 classes of 64 × 64 pixels, from the official zip or the folder in it."""

from __future__ import annotations

import io
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from snv.data.archives import BROKEN, TooLargeError, zip_member
from snv.data.arrays import Arrays
from snv.data.cache import Decoding, cached, mark_of
from snv.data.download import Remote
from snv.data.images import decode
from snv.data.locate import Options, damaged, obtain
from snv.data.task import Source
from snv.files import read_bytes

REMOTE = Remote("http://cs231n.stanford.edu/tiny-imagenet-200.zip", "90528d7ca1a48142e341f4ef8d21d0de")
PATTERNS = ("tiny-imagenet-200.zip", "tiny-imagenet-200", "tiny-imagenet*.zip")  # subsets of the official zip too
SIZE = 64
LARGEST, MOST = 2**24, 500_000
"""Bytes of a file, and how many files; the official zip has 120,609, none larger than 9 million."""
MEAN, STD = (0.4802, 0.4481, 0.3975), (0.2770, 0.2691, 0.2821)

Read: TypeAlias = Callable[[str], bytes]


class Contents(NamedTuple):
    """The files of the dataset, by their path below its root, and how to read one."""

    names: list[str]
    read: Read


def load(options: Options) -> Source:
    """Training and validation parts pooled (the official test part has no labels).

    ``size`` 64 is as published; any other is resampled (bilinear, antialiased).
    """
    path = obtain("Tiny-ImageNet", PATTERNS, REMOTE, options)
    size = options.size or SIZE
    inputs = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    mark = mark_of(inputs)
    pool = cached("tiny-imagenet", path, (3, size, size), mark, lambda: _decoding(path, size), options.progress)
    names, augmentation = pool.class_names, "crop-flip"
    return Arrays("tiny-imagenet", pool.images, pool.labels, names, MEAN, STD, augmentation, lambda: _n_val(path), pool)


def _n_val(path: Path) -> int:
    """Images of the official validation part, which is the last; it serves as test part."""
    with _contents(path) as (names, read):
        return len(_validation(set(names), read))


def _decoding(path: Path, size: int) -> Decoding:
    with _contents(path) as (names, read):
        files = _labelled(names, read, path)
        wnids = sorted({wnid for _, wnid in files})
        words = read("words.txt").decode() if "words.txt" in names else ""
    number = {wnid: i for i, wnid in enumerate(wnids)}
    labels = np.array([number[wnid] for _, wnid in files], np.int64)
    return Decoding(labels, class_names(wnids, words), _images(path, [name for name, _ in files], size))


def _images(path: Path, names: Sequence[str], size: int) -> Iterator[NDArray[np.uint8]]:
    with _contents(path) as (_, read):
        for name in names:
            yield decode(io.BytesIO(read(name)), f"{path}: {name}", size)


def _labelled(names: Sequence[str], read: Read, path: Path) -> list[tuple[str, str]]:
    """Every image with its WordNet id: training by folder, validation by the official list; in a fixed order."""
    members = set(names)
    train = [(name, name.split("/")[1]) for name in names if name.startswith("train/") and name.endswith(".JPEG")]
    if len({wnid for _, wnid in train}) < 2:
        raise damaged(path, "there are no class folders with JPEG images under train/")
    val = _validation(members, read)
    missing = next((name for name, _ in val if name not in members), None)
    if missing:
        raise damaged(path, f"{missing} is listed but missing")
    return sorted(train, key=lambda item: (item[1], item[0])) + sorted(val)


def _validation(members: set[str], read: Read) -> list[tuple[str, str]]:
    """What the official list names, with its WordNet id."""
    if "val/val_annotations.txt" not in members:
        return []
    rows = (line.split("\t") for line in read("val/val_annotations.txt").decode().splitlines())
    return [(f"val/images/{row[0]}", row[1]) for row in rows if len(row) > 1]


def class_names(wnids: Sequence[str], words: str) -> tuple[str, ...]:
    """The first word of each class in ``words``, with its WordNet id where two classes share the word."""
    rows = dict(line.split("\t", 1) for line in words.splitlines() if "\t" in line)
    plain = [rows.get(wnid, wnid).split(",")[0].strip() for wnid in wnids]
    times = Counter(plain)
    return tuple(name if times[name] == 1 else f"{name} ({wnid})" for name, wnid in zip(plain, wnids, strict=True))


@contextmanager
def _contents(path: Path) -> Iterator[Contents]:
    """The files of the extracted folder, or those of a zip, below the one folder everything in it is in."""
    try:
        if path.is_dir():
            names = [file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file()]
            yield Contents(_few(names), lambda name: read_bytes(path / name, LARGEST))
            return
        with zipfile.ZipFile(path) as archive:
            full = {name.partition("/")[2]: name for name in archive.namelist() if not name.endswith("/")}
            yield Contents(_few(list(full)), lambda name: zip_member(archive, full[name], LARGEST))
    except BROKEN as error:
        raise damaged(path, error) from None


def _few(names: list[str]) -> list[str]:
    if len(names) > MOST:
        raise TooLargeError(f"it holds more than {MOST:,} files")
    return names

"""CIFAR-10 and CIFAR-100 (Krizhevsky, 2009), from the official Python archives or the folders in them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snv.data.archives import BROKEN, tar_members
from snv.data.arrays import Arrays
from snv.data.cache import Decoding, cached, mark_of
from snv.data.download import Remote
from snv.data.locate import Options, damaged, obtain
from snv.data.plain_pickle import NotPlainError, read_plain
from snv.data.task import Source
from snv.files import read_bytes

SHAPE = (3, 32, 32)
LARGEST = 2**29
"""Bytes that all files of an archive may have; the official ones have 186 million."""
ADDRESS = "https://www.cs.toronto.edu/~kriz/"


@dataclass(frozen=True)
class Variant:
    """What tells the two datasets apart."""

    name: str
    title: str
    remote: Remote
    folder: str
    parts: tuple[str, ...]
    meta: str
    labels: bytes
    class_names: bytes
    mean: tuple[float, float, float]
    std: tuple[float, float, float]


CIFAR10 = Variant(
    name="cifar10",
    title="CIFAR-10",
    remote=Remote(ADDRESS + "cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a"),
    folder="cifar-10-batches-py",
    parts=(*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"),
    meta="batches.meta",
    labels=b"labels",
    class_names=b"label_names",
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2470, 0.2435, 0.2616),
)
CIFAR100 = Variant(
    name="cifar100",
    title="CIFAR-100",
    remote=Remote(ADDRESS + "cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85"),
    folder="cifar-100-python",
    parts=("train", "test"),
    meta="meta",
    labels=b"fine_labels",
    class_names=b"fine_label_names",
    mean=(0.5071, 0.4865, 0.4409),
    std=(0.2673, 0.2564, 0.2762),
)


def load_cifar10(options: Options) -> Source:
    return _load(CIFAR10, options)


def load_cifar100(options: Options) -> Source:
    return _load(CIFAR100, options)


def _load(variant: Variant, options: Options) -> Source:
    """Both official parts pooled."""
    options.fixed_size(variant.name, SHAPE[1])
    path = obtain(variant.title, (variant.remote.name, variant.folder), variant.remote, options)
    inputs = [path] if path.is_file() else [path / name for name in (*variant.parts, variant.meta)]
    missing = next((file for file in inputs if not file.is_file()), None)
    if missing:
        raise damaged(path, f"{missing.name} is missing")
    mark = mark_of(inputs)
    pool = cached(variant.name, path, SHAPE, mark, lambda: _decoding(variant, path), options.progress)
    return Arrays(
        variant.name,
        pool.images,
        pool.labels,
        pool.class_names,
        variant.mean,
        variant.std,
        augmentation="crop-flip",
        n_test=lambda: _n_test(variant, path),
        pool=pool,
    )


def _n_test(variant: Variant, path: Path) -> int:
    """Images of the official test part, which is the last."""
    name = variant.parts[-1]
    return len(_labels(_contents(path, {name})[name], name, variant, path))


def _decoding(variant: Variant, path: Path) -> Decoding:
    contents = _contents(path, {*variant.parts, variant.meta})
    names = _class_names(contents[variant.meta], variant, path)
    labels = [_labels(contents[part], part, variant, path) for part in variant.parts]
    images: list[Any] = [contents[part].get(b"data") for part in variant.parts]
    for part, numbers, pixels in zip(variant.parts, labels, images, strict=True):
        if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape != (len(numbers), 3072):
            found = pixels.shape if isinstance(pixels, np.ndarray) else type(pixels).__name__
            raise damaged(path, f"{part} holds {len(numbers)} labels and pixels of shape {found}")
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < len(names):
            raise damaged(path, f"{part} has labels outside 0 to {len(names) - 1}")
    return Decoding(np.concatenate(labels), names, np.concatenate(images).reshape(-1, *SHAPE))


def _class_names(meta: dict[Any, Any], variant: Variant, path: Path) -> tuple[str, ...]:
    names = meta.get(variant.class_names)
    if not isinstance(names, list) or not all(isinstance(name, bytes) and name.isascii() for name in names):
        raise damaged(path, f"{variant.meta} holds no names of classes")
    return tuple(name.decode("ascii") for name in names)


def _labels(part: dict[Any, Any], name: str, variant: Variant, path: Path) -> NDArray[np.int64]:
    """One number per image; nested lists, which could stand for any number of them, are none."""
    labels = part.get(variant.labels)
    if not isinstance(labels, list) or not all(isinstance(label, int) and abs(label) < 2**31 for label in labels):
        raise damaged(path, f"{name} holds no labels")
    return np.array(labels, np.int64)


def _contents(path: Path, wanted: set[str]) -> dict[str, dict[Any, Any]]:
    """The dictionaries in some files, by name."""
    try:
        if path.is_dir():
            files = {name: read_bytes(path / name, LARGEST) for name in sorted(wanted)}
        else:
            files = tar_members(path, wanted, LARGEST)
    except BROKEN as error:
        raise damaged(path, error) from None
    if missing := wanted - set(files):
        raise damaged(path, f"{', '.join(sorted(missing))} is missing")
    return {name: _dictionary(data, name, path) for name, data in sorted(files.items())}


def _dictionary(data: bytes, name: str, path: Path) -> dict[Any, Any]:
    try:
        found = read_plain(data)
    except NotPlainError as error:
        raise damaged(path, f"{name}: {error}") from None
    if not isinstance(found, dict):
        raise damaged(path, f"{name} holds no dictionary")
    return found

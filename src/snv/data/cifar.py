"""CIFAR-10 and CIFAR-100 (Krizhevsky, 2009), from the official Python archives or the folders in them."""

from __future__ import annotations

import io
import pickle
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snv.data.arrays import Arrays
from snv.data.cache import Decoding, cached, mark_of
from snv.data.download import Remote
from snv.data.locate import Options, damaged, obtain
from snv.data.task import Source

SHAPE = (3, 32, 32)
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
    return len(_field(_files(path, {name}), name, variant.labels, path))


def _decoding(variant: Variant, path: Path) -> Decoding:
    files = _files(path, {*variant.parts, variant.meta})
    names = tuple(name.decode() for name in _field(files, variant.meta, variant.class_names, path))
    labels = [np.array(_field(files, part, variant.labels, path), np.int64) for part in variant.parts]
    images = [np.asarray(_field(files, part, b"data", path)) for part in variant.parts]
    for part, numbers, pixels in zip(variant.parts, labels, images, strict=True):
        if pixels.dtype != np.uint8 or pixels.shape != (len(numbers), 3072):
            raise damaged(path, f"{part} holds {len(numbers)} labels and pixels of shape {pixels.shape}")
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < len(names):
            raise damaged(path, f"{part} has labels outside 0 to {len(names) - 1}")
    return Decoding(np.concatenate(labels), names, np.concatenate(images).reshape(-1, *SHAPE))


def _files(path: Path, wanted: set[str]) -> dict[str, bytes]:
    """The contents of some files, by name."""
    members: dict[str, bytes] = {}
    try:
        if path.is_dir():
            return {name: (path / name).read_bytes() for name in wanted}
        with tarfile.open(path) as archive:
            for member in archive:
                name = member.name.rsplit("/", 1)[-1]
                if name in wanted and (file := archive.extractfile(member)):
                    members[name] = file.read()
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise damaged(path, error) from None
    if missing := wanted - set(members):
        raise damaged(path, f"{', '.join(sorted(missing))} is missing")
    return members


def _field(files: dict[str, bytes], name: str, key: bytes, path: Path) -> Any:
    """One entry of one pickled dictionary."""
    try:
        return _Plain(io.BytesIO(files[name]), encoding="bytes").load()[key]
    except Exception as error:  # a damaged pickle can fail in any way
        raise damaged(path, f"{name}: {error}") from None


_ARRAY: NDArray[np.uint8] = np.empty(0, np.uint8)
_ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"): _ARRAY.__reduce__()[0],
    ("numpy._core.multiarray", "_reconstruct"): _ARRAY.__reduce__()[0],
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
}


class _Plain(pickle.Unpickler):
    """Reads dictionaries, lists, strings, numbers and arrays; a pickle that asks for anything else is refused."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, as no official file does") from None

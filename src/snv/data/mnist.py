"""MNIST (LeCun et al., 1998) and Fashion-MNIST (Xiao et al., 2017), from their IDX files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from snv.data.archives import BROKEN, gunzipped
from snv.data.arrays import Arrays
from snv.data.cache import Decoding, cached, mark_of
from snv.data.download import Remote
from snv.data.locate import Options, damaged, obtain
from snv.data.task import Source
from snv.errors import UserError

SIDE = 28
LARGEST = 2**26
"""Bytes of a file unpacked; the largest official one has 47 million."""
FILES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)


@dataclass(frozen=True)
class Variant:
    """What tells the two datasets apart: their files have the same names."""

    name: str
    title: str
    url: str
    md5: tuple[str, str, str, str]  # of FILES
    torchvision: str  # the folder where torchvision keeps it
    first_labels: tuple[int, ...]  # of the training part
    class_names: tuple[str, ...]
    mean: float
    std: float


MNIST = Variant(
    name="mnist",
    title="MNIST",
    url="https://ossci-datasets.s3.amazonaws.com/mnist/",
    md5=(
        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "d53e105ee54ea40749a09fcbcd1e9432",
        "9fb629c4189551a2d022fa330f9573f3",
        "ec29112dd5afa0611ce80d1b7f02629c",
    ),
    torchvision="MNIST/raw",
    first_labels=(5, 0, 4, 1, 9, 2, 1, 3),
    class_names=tuple("0123456789"),
    mean=0.1307,
    std=0.3081,
)
FASHION = Variant(
    name="fashion-mnist",
    title="Fashion-MNIST",
    url="http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    md5=(
        "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "25c81989df183df01b3e8a0aad5dffbe",
        "bef4ecab320f06d8554ea6380940ec79",
        "bb300cfdad3c16e7a12a480ee83cd310",
    ),
    torchvision="FashionMNIST/raw",
    first_labels=(9, 0, 0, 3, 0, 2, 7, 2),
    class_names=(
        *("T-shirt/top", "trouser", "pullover", "dress", "coat"),
        *("sandal", "shirt", "sneaker", "bag", "ankle boot"),
    ),
    mean=0.2860,
    std=0.3530,
)


def load_mnist(options: Options) -> Source:
    return _load(MNIST, options)


def load_fashion(options: Options) -> Source:
    return _load(FASHION, options)


def _load(variant: Variant, options: Options) -> Source:
    """Both official parts pooled."""
    options.fixed_size(variant.name, SIDE)
    paths = [_file(variant, i, options) for i in range(4)]
    pool = cached(
        variant.name,
        paths[0],
        (1, SIDE, SIDE),
        mark_of(paths),
        lambda: _decoding(variant, paths),
        options.progress,
    )
    constants = (variant.mean,), (variant.std,)
    names = pool.class_names
    return Arrays(
        variant.name, pool.images, pool.labels, names, *constants, n_test=lambda: len(read_idx(paths[3], 1)), pool=pool
    )


def _file(variant: Variant, i: int, options: Options) -> Path:
    """One of the four files, packed or not, in a folder of its own, in torchvision's, or directly where we look."""
    folders = (f"{variant.name}/", f"{variant.torchvision}/", "")
    patterns = [folder + name for folder in folders for name in (FILES[i], FILES[i].removesuffix(".gz"))]
    remote = Remote(variant.url + FILES[i], variant.md5[i])
    return obtain(variant.title, patterns, remote, options, folder=variant.name)


def _decoding(variant: Variant, paths: list[Path]) -> Decoding:
    images, labels = ([read_idx(path, ndim) for path in paths[ndim == 1 :: 2]] for ndim in (3, 1))
    _check(variant, paths, images, labels)
    return Decoding(np.concatenate(labels).astype(np.int64), variant.class_names, np.concatenate(images)[:, None])


def _check(
    variant: Variant, paths: list[Path], images: list[NDArray[np.uint8]], labels: list[NDArray[np.uint8]]
) -> None:
    other = FASHION if variant is MNIST else MNIST
    if tuple(labels[0][:8].tolist()) == other.first_labels:
        raise UserError(
            f"{paths[1]} belongs to {other.title}, whose files have the same names as those of {variant.title}. "
            f"Keep each dataset in a folder of its own, {other.name} and {variant.name}."
        )
    for path, of_part, numbers in zip(paths[::2], images, labels, strict=True):
        if of_part.shape != (len(numbers), SIDE, SIDE):
            raise damaged(path, f"{of_part.shape} pixels for {len(numbers)} labels")
        if numbers.max(initial=0) > 9:
            raise damaged(path, f"label {numbers.max()}, but the classes are 0 to 9")


def read_idx(path: Path, ndim: int) -> NDArray[np.uint8]:
    """The bytes of an IDX file as an array: magic number, ``ndim`` big-endian lengths, then exactly that many bytes."""
    try:
        data = gunzipped(path, LARGEST)
    except BROKEN as error:
        raise damaged(path, error) from None
    start = 4 + 4 * ndim
    if len(data) < start or data[:4] != bytes((0, 0, 8, ndim)):
        raise damaged(path, f"it does not begin like an IDX file of {ndim} dimension{'s' * (ndim > 1)}")
    shape = tuple(np.frombuffer(data, ">i4", ndim, 4).tolist())
    size = int(np.prod(shape, dtype=object))
    if len(data) - start != size:
        raise damaged(path, f"it announces {size} bytes and holds {len(data) - start}")
    return np.frombuffer(data, np.uint8, size, start).reshape(shape)

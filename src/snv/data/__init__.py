"""What a learner may see: datasets, and the tasks they are cut into."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from snv.data import cifar, digits, folder, imagenet, mnist, tiny_imagenet
from snv.data.archives import BROKEN, read_npz
from snv.data.arrays import from_arrays
from snv.data.augment import Preprocess
from snv.data.folder import list_classes
from snv.data.given import as_source
from snv.data.images import bytes_from_unit, decode, is_picture, squared
from snv.data.locate import Options, Progress, cache_dir, silent
from snv.data.split import Order, Parts, split_indices
from snv.data.task import Half, InMemory, Judged, Source, Split, Task, TaskStream
from snv.errors import UserError, unknown

__all__ = [
    "BROKEN",
    "SOURCES",
    "Half",
    "InMemory",
    "Judged",
    "Order",
    "Parts",
    "Preprocess",
    "Progress",
    "Source",
    "Split",
    "Task",
    "TaskStream",
    "as_source",
    "bytes_from_unit",
    "cache_dir",
    "decode",
    "from_arrays",
    "is_permuted",
    "is_picture",
    "list_classes",
    "load_source",
    "read_npz",
    "split_indices",
    "squared",
]


@dataclass(frozen=True)
class Description:
    """A dataset before it is read: what it is, and how to read it."""

    summary: str
    classes: int | None  # None: whatever the files hold
    size: int | None  # side of an image in pixels
    tasks: int  # how many, unless told otherwise
    download: bool  # fetched by itself when missing
    load: Callable[[Options], Source]
    images: int | None = None  # of all classes together; None: as with classes
    channels: int = 3
    permuted: bool = False  # every task has all classes, with pixels in an order of its own


def _needs_path(kind: str) -> Callable[[Options], Source]:
    def load(_: Options) -> Source:
        raise UserError(f"{kind} needs to know where your images are. Write {kind}:PATH.")

    return load


SOURCES: dict[str, Description] = {
    "digits": Description("1,797 handwritten digits, part of the package", 10, 8, 5, False, digits.load, 1797, 1),
    "permuted-digits": Description(
        "digits with pixels in another order for every task", 10, 8, 5, False, digits.load, 1797, 1, permuted=True
    ),
    "mnist": Description("70,000 handwritten digits", 10, 28, 5, True, mnist.load_mnist, 70_000, 1),
    "permuted-mnist": Description(
        "MNIST with pixels in another order for every task",
        10,
        28,
        10,
        True,
        mnist.load_mnist,
        70_000,
        1,
        permuted=True,
    ),
    "fashion-mnist": Description("70,000 pieces of clothing", 10, 28, 5, True, mnist.load_fashion, 70_000, 1),
    "cifar10": Description("60,000 colour photographs", 10, 32, 5, True, cifar.load_cifar10, 60_000),
    "cifar100": Description("60,000 colour photographs, fine labels", 100, 32, 10, True, cifar.load_cifar100, 60_000),
    "tiny-imagenet": Description(
        "110,000 photographs of ImageNet, shrunk", 200, 64, 10, True, tiny_imagenet.load, 110_000
    ),
    "imagenet-1k": Description(
        "1.3 million photographs, read while training", 1000, 224, 10, False, imagenet.load, 1_331_167
    ),
    "folder:PATH": Description(
        "your own images, one sub-folder per class", None, folder.SIZE, 2, False, _needs_path("folder")
    ),
    "npz:PATH": Description("your own arrays, images and labels", None, None, 2, False, _needs_path("npz")),
}


def is_permuted(name: str) -> bool:
    """Whether a stream of this dataset is made by permuting pixels rather than by dividing classes."""
    return name in SOURCES and SOURCES[name].permuted


def load_source(
    name: str,
    data_dir: Path | str | None = None,
    size: int | None = None,
    workers: int = 0,
    progress: Progress | None = None,
    download: bool = True,
) -> Source:
    """The dataset called ``name``; files are looked for in ``data_dir``, then $SNV_DATA, then the cache folder."""
    where = None if data_dir is None else Path(data_dir)
    options = Options(where, size, workers, progress or silent, download)
    kind, _, path = name.partition(":")
    if kind == "folder" and path:
        return folder.load_folder(Path(path), options)
    if kind == "npz" and path:
        return folder.load_npz(Path(path), options)
    known = SOURCES.get(f"{name.rstrip(':')}:PATH", SOURCES.get(name))
    if known is None:
        raise unknown("dataset", name, SOURCES)
    return known.load(options)

"""A person's own pictures as one task: from a folder, arrays or any dataset to pixels in memory, and nowhere else.

Nothing is cached on disk: pictures that must be deleted next month leave no copy behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import UInt8
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from snv.data import InMemory, Task, bytes_from_unit, decode, is_picture, list_classes, split_indices, squared
from snv.errors import UserError
from snv.seeding import generator
from snv.shapes import Labels, Pixels

SHARES = (0.8, 0.1, 0.1)
"""Train, validation (chooses neurons, calibrates), held out (only ever counted)."""
FEWEST = 5
"""Pictures a class needs."""
AT_ONCE = 64
"""Pictures decoded before the first of them is used."""

Progress = Callable[[str, float, float], None]
Picture: TypeAlias = UInt8[Tensor, "c h w"]


@dataclass(frozen=True, eq=False)
class Pictures:
    """Pictures of some classes, all of one size."""

    pixels: Pixels
    labels: NDArray[np.int64]
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        counts = np.bincount(self.labels, minlength=len(self.classes))
        if len(self.classes) < 2:
            raise UserError(f"There is {len(self.classes)} class; telling classes apart needs at least 2.")
        if len(set(self.classes)) < len(self.classes):
            raise UserError(f"Two classes have the same name among {', '.join(self.classes)}. Rename one of them.")
        few = next((name for name, n in zip(self.classes, counts, strict=True) if n < FEWEST), None)
        if few is not None:
            n = int(counts[self.classes.index(few)])
            raise UserError(
                f"The class {few!r} has {n} picture{'s' * (n != 1)}; at least {FEWEST} are needed, so that some can be "
                "held out. Add pictures, or remove the class."
            )


def read_folder(root: Path, size: int, progress: Progress = lambda *_: None) -> Pictures:
    """Every picture below every class folder, decoded."""
    classes = list_classes(root.expanduser().resolve())
    files = [file for members in classes.values() for file in members]
    labels = np.repeat(np.arange(len(classes)), [len(members) for members in classes.values()])
    pixels = torch.empty(len(files), 3, size, size, dtype=torch.uint8)
    for i, (_, picture) in enumerate(decoded(files, size)):
        pixels[i] = picture
        progress("reading pictures", i + 1, len(files))
    return Pictures(pixels, labels, tuple(classes))


def read_dataset(data: Any, size: tuple[int, int, int], names: Sequence[str] | None = None) -> Pictures:
    """(images, labels) arrays, or anything with (image, label) items; images of any size, uint8 or floats in [0, 1]."""
    if isinstance(data, tuple) and len(data) == 2:
        images, labels = data
        if len(images) != len(labels):
            raise UserError(f"There are {len(images)} images but {len(labels)} labels. Give one label per image.")
        pairs: Iterable[Any] = zip(images, labels, strict=True)
    elif hasattr(data, "__len__") or isinstance(data, Iterable):
        pairs = (data[i] for i in range(len(data))) if hasattr(data, "__len__") else data
    else:
        raise UserError(f"Give a folder, (images, labels) or a dataset of (image, label); got {type(data).__name__}.")
    pixels, raw_labels = [], []
    for i, pair in enumerate(pairs):
        if not isinstance(pair, Sequence) or len(pair) != 2:
            raise UserError(
                f"Item {i} is not a pair (image, label) but {type(pair).__name__}. Give one label per image."
            )
        image, label = pair
        pixels.append(as_pixels(image, size, f"Image {i}"))
        raw_labels.append(label.item() if hasattr(label, "item") else label)
    if not pixels:
        raise UserError("There is no image to learn from.")
    if names is None:
        names = getattr(data, "classes", None)
    values = sorted(set(raw_labels), key=str if len({isinstance(x, str) for x in raw_labels}) > 1 else None)
    numbered = {value: i for i, value in enumerate(values)}
    labels = np.array([numbered[label] for label in raw_labels], dtype=np.int64)
    name_of = {} if names is None else dict(enumerate(names))
    classes = tuple(str(name_of.get(value, value)) for value in values)
    return Pictures(torch.stack(pixels), labels, classes)


def as_pixels(image: Any, shape: tuple[int, int, int], name: str) -> Picture:
    """One image as uint8 (c, h, w): a PIL image, or an array of (h, w), (h, w, c) or (c, h, w)."""
    channels, height, width = shape
    if isinstance(image, Image.Image):
        colour = torch.from_numpy(squared(image, name, height))
        return colour if channels == 3 else as_grey(colour)
    array = np.asarray(image.detach().cpu() if isinstance(image, torch.Tensor) else image)
    if np.issubdtype(array.dtype, np.floating):
        array = bytes_from_unit(array, name)
    if array.dtype != np.uint8 or array.ndim not in (2, 3):
        raise UserError(
            f"{name} is {array.dtype} of shape {array.shape}; expected uint8 or floats in [0, 1], 2-D or 3-D."
        )
    if array.ndim == 2:
        array = array[None]
    elif array.shape[0] not in (1, 3):
        array = array.transpose(2, 0, 1)
    if array.shape[0] not in (1, 3):
        raise UserError(f"{name} has {array.shape[0]} channels; expected 1 or 3.")
    if array.shape[1:] != (height, width) or array.shape[0] != channels:
        grey = array.shape[0] == 1
        picture = Image.fromarray(array[0] if grey else np.ascontiguousarray(array.transpose(1, 2, 0)))
        return as_pixels(picture, shape, name)
    return torch.from_numpy(np.array(array))


def as_grey(picture: Picture) -> UInt8[Tensor, "1 h w"]:
    """The mean of the colours, as one channel."""
    return picture.float().mean(0, keepdim=True).round().to(torch.uint8)


def is_one_image(data: Any, channels: int) -> bool:
    """Whether this is an image rather than several; (3, h, w) is one in colour, or three if images are grey."""
    shape: tuple[int, ...] = getattr(data, "shape", ())
    ndim = len(shape)
    coloured = ndim == 3 and (shape[-1] in (1, 3) or (channels == 3 and shape[0] == 3))
    return isinstance(data, Image.Image) or ndim == 2 or coloured


def decoded(files: Iterable[Path], size: int) -> Iterator[tuple[Path, Picture]]:
    """Pictures one after the other, in order; one that cannot be read is an error."""
    for file, picture in tried(files, size):
        if isinstance(picture, UserError):
            raise picture
        yield file, picture


def tried(files: Iterable[Path], size: int) -> Iterator[tuple[Path, Picture | UserError]]:
    """Pictures in order, or what is wrong with each; only a few are read ahead, so thousands need no more memory."""

    def attempt(file: Path) -> Picture | UserError:
        try:
            return torch.from_numpy(decode(file, file, size))
        except UserError as error:
            return error

    source = iter(files)
    with ThreadPoolExecutor(2) as pool:
        while some := list(islice(source, AT_ONCE)):
            yield from zip(some, pool.map(attempt, some), strict=True)


def picture_files(paths: Iterable[Path]) -> Iterator[Path]:
    """The files named, and all pictures in and below the folders named; hidden ones and links are ignored there."""
    for path in paths:
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if is_picture(p) and p.is_file() and not p.is_symlink())
            visible = [p for p in inside if not any(part.startswith(".") for part in p.relative_to(path).parts)]
            if not visible:
                raise UserError(f"There is no picture in {path}. Give picture files, or folders of them.")
            yield from visible
        elif path.exists():
            yield path
        else:
            raise UserError(f"{path} does not exist. Give picture files, or folders of them.")


def as_task(pictures: Pictures, uid: int, start: int, seed: int) -> Task:
    """The pictures as the next task: split by class, and rare classes repeated in training until all are even."""
    parts = split_indices(pictures.labels, seed, pictures.classes, SHARES)
    train, val, test = (_split(pictures, torch.from_numpy(part), start) for part in parts)
    rows = evened(train.labels - start, generator(seed, "even classes", uid))
    train = InMemory(train.pixels[rows], train.labels[rows])
    return Task(uid, range(start, start + len(pictures.classes)), pictures.classes, train, val, test)


def _split(pictures: Pictures, rows: torch.Tensor, start: int) -> InMemory:
    return InMemory(pictures.pixels[rows], torch.from_numpy(pictures.labels)[rows] + start)


def evened(labels: Labels, rng: torch.Generator, most: int = 10) -> torch.Tensor:
    """Rows in which every class is as frequent as the largest, none repeated more than ``most`` times."""
    counts = torch.bincount(labels)
    rows = []
    for c, n in enumerate(counts.tolist()):
        mine = (labels == c).nonzero()[:, 0]
        wanted = min(int(counts.max()), most * n)
        times, rest = divmod(wanted, n)
        rows.append(torch.cat([mine.repeat(times), mine[torch.randperm(n, generator=rng)[:rest]]]))
    return torch.cat(rows)

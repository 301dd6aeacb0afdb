"""Images as one array, in memory or mapped from the cache: how all small datasets are held."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from snv.data.cache import Pool, checksum_of
from snv.data.images import bytes_from_unit
from snv.data.task import InMemory, Source
from snv.errors import UserError
from snv.shapes import Labels


class Arrays(Source):
    """A dataset of images (n, c, h, w) of which every split gets a copy of its own."""

    def __init__(
        self,
        name: str,
        images: NDArray[np.uint8],
        labels: NDArray[np.int64],
        class_names: tuple[str, ...],
        mean: tuple[float, ...],
        std: tuple[float, ...],
        augmentation: str = "none",
        n_test: Callable[[], int] | None = None,
        pool: Pool | None = None,
    ) -> None:
        """``n_test`` finds out how many of the last images are the data set's own test images.

        ``pool`` is what the images are of, if they are mapped from a file.
        """
        self.name, self.labels, self.class_names = name, labels, class_names
        self.mean, self.std, self.augmentation = mean, std, augmentation
        _, channels, height, width = images.shape
        self.shape = (channels, height, width)
        self._images, self._n_test, self._pool = images, n_test, pool

    def n_official_test(self) -> int:
        return self._n_test() if self._n_test else 0

    def content(self) -> str:
        return f"{checksum_of(self._images) if self._pool is None else self._pool.checksum:08x}"

    def split(self, indices: NDArray[np.int64], labels: Labels) -> InMemory:
        if self._pool is not None:
            self._pool.check()
        return InMemory(torch.from_numpy(np.take(self._images, indices, axis=0)), labels)

    def part(self, rows: NDArray[np.int64]) -> Arrays:
        images, labels = np.take(self._images, rows, axis=0), self.labels[rows]
        return Arrays(self.name, images, labels, self.class_names, self.mean, self.std, self.augmentation)


def from_arrays(
    images: ArrayLike, labels: ArrayLike, class_names: Sequence[str] | None = None, name: str = "arrays"
) -> Source:
    """A source from images (n, h, w) or (n, h, w, c), uint8 or floats in [0, 1], and one int or string label each.

    With ``class_names``, label i is called ``class_names[i]``; without, the labels are the names. Colour images are
    randomly cropped and flipped in training, grey ones (digits, letters) are left as they are.
    """
    pixels = _pixels(np.asarray(images), name)
    numbers, names = _numbered(np.asarray(labels), class_names, name)
    if len(numbers) != len(pixels):
        raise UserError(f"{name} has {len(pixels)} images but {len(numbers)} labels. Give one label per image.")
    if len(names) < 2:
        raise UserError(f"{name} has {len(names)} class; learning to tell classes apart needs at least 2.")
    channels = pixels.shape[1]
    half = (0.5,) * channels
    return Arrays(name, pixels, numbers, names, half, half, "crop-flip" if channels == 3 else "none")


def _pixels(images: NDArray[np.generic], name: str) -> NDArray[np.uint8]:
    """Images as uint8 (n, c, h, w)."""
    if images.ndim == 3:
        images = images[..., None]
    if images.ndim != 4 or images.shape[-1] not in (1, 3) or 0 in images.shape:
        raise UserError(
            f"The images of {name} have the shape {images.shape}; expected (n, height, width) or "
            "(n, height, width, channels) with 1 or 3 channels, and at least one image."
        )
    if np.issubdtype(images.dtype, np.floating):
        scaled = [bytes_from_unit(image, f"Image {i} of {name}") for i, image in enumerate(images)]
        images = np.stack(scaled)
    if images.dtype != np.uint8:
        raise UserError(f"The images of {name} are {images.dtype}; expected uint8, or floats in [0, 1].")
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2), dtype=np.uint8)


def _numbered(
    labels: NDArray[np.generic], class_names: Sequence[str] | None, name: str
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Labels as 0..C−1, and what the classes are called."""
    if labels.ndim != 1 or labels.dtype.kind not in "iuU":
        raise UserError(
            f"The labels of {name} are {labels.dtype} of shape {labels.shape}; "
            "expected one integer or string per image."
        )
    values, numbers = np.unique(labels, return_inverse=True)
    if class_names is None:
        return numbers.astype(np.int64), tuple(map(str, values.tolist()))
    if values.tolist() != list(range(len(class_names))):
        raise UserError(
            f"{name} names {len(class_names)} classes, so its labels are 0 to {len(class_names) - 1}, "
            f"each at least once; found {', '.join(map(str, values.tolist()[:10]))}."
        )
    return numbers.astype(np.int64), tuple(class_names)

"""Data that Python has already: arrays, or any dataset of (image, label) items, as a source of tasks."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from snv.data.arrays import from_arrays
from snv.data.images import bytes_from_unit
from snv.data.task import Source
from snv.errors import UserError

CHANNELS = (1, 3)


def as_source(data: Any) -> Source:
    """A source as it is; (images, labels); or a map-style dataset, of which every item is read once into memory.

    Images are uint8, or floats in [0, 1], which are rounded to 256 levels; grey or colour, channels first or last.
    """
    if isinstance(data, Source):
        return data
    if isinstance(data, tuple) and len(data) == 2:
        return from_arrays(_channels_last(_array(data[0]), 4), _array(data[1]))
    if not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
        raise UserError(
            f"Data are a source, a pair (images, labels) or a dataset with a length; got {type(data).__name__}."
        )
    return _of_dataset(data, type(data).__name__)


def _of_dataset(data: Any, name: str) -> Source:
    images: list[NDArray[np.uint8]] = []
    labels: list[int] = []
    for i in range(len(data)):
        item = data[i]
        if not (isinstance(item, tuple | list) and len(item) == 2):
            raise UserError(f"Item {i} of {name} is no pair (image, label) but {type(item).__name__}.")
        images.append(_pixels(item[0], f"Image {i} of {name}"))
        labels.append(int(item[1]))
        if images[i].shape != images[0].shape:
            raise UserError(
                f"Image {i} of {name} has the shape {images[i].shape} and the first {images[0].shape}; all images of a "
                "run are of one size. Resize them in the dataset's transform."
            )
    if not images:
        raise UserError(f"{name} is empty. Give at least 3 images of each class.")
    return from_arrays(np.stack(images), np.array(labels), _names(data, labels), name)


def _names(data: Any, labels: list[int]) -> tuple[str, ...] | None:
    """What the dataset calls its classes, if it says so and has them all."""
    classes = getattr(data, "classes", None)
    if classes is None or sorted(set(labels)) != list(range(len(classes))):
        return None
    return tuple(map(str, classes))


def _pixels(image: Any, name: str) -> NDArray[np.uint8]:
    """One image as uint8 (h, w) or (h, w, c)."""
    array = _channels_last(_array(image), 3)
    if np.issubdtype(array.dtype, np.floating):
        return bytes_from_unit(array, name)
    if array.dtype != np.uint8:
        raise UserError(f"{name} is {array.dtype}; expected uint8, or floats in [0, 1] (so no Normalize).")
    return array.astype(np.uint8)


def _array(data: Any) -> NDArray[Any]:
    return data.detach().cpu().numpy() if isinstance(data, torch.Tensor) else np.asarray(data)


def _channels_last(images: NDArray[Any], ndim: int) -> NDArray[Any]:
    """Of images with ``ndim`` axes, the channels as the last one, unless they are there."""
    if images.ndim == ndim and images.shape[-3] in CHANNELS and images.shape[-1] not in CHANNELS:
        return np.moveaxis(images, -3, -1)
    return images

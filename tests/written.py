"""Datasets as files, written for tests."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from snv.data import load_source


def images_of(source) -> np.ndarray:
    """All images of a source, as (n, c, h, w)."""
    index = np.arange(len(source.labels))
    split = source.split(index, torch.from_numpy(source.labels))
    return next(split.batches([torch.from_numpy(index)]))[0].numpy()


IDX = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">BBBB{array.ndim}i", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def write_mnist(folder: Path, packed: bool = True, labels: np.ndarray | None = None) -> np.ndarray:
    """The four official files with 40 and 20 random images; the pooled images come back."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (60, 28, 28), dtype=np.uint8)
    numbers = (np.arange(60) % 10).astype(np.uint8) if labels is None else labels
    for name, array in zip(IDX, (images[:40], numbers[:40], images[40:], numbers[40:]), strict=True):
        path = folder / (name + ".gz" * packed)
        path.write_bytes(gzip.compress(idx(array)) if packed else idx(array))
    return images


def save(path: Path, colour, size=(80, 60), mode="RGB", **options) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour).save(path, **options)


def load_folder(root: Path, size: int | None = None):
    return load_source(f"folder:{root}", size=size)


BLANK = np.zeros((4, 2, 2), np.uint8)

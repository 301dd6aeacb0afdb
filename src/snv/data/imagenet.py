"""ImageNet-1k (Russakovsky et al., 2015), from class folders, decoded while training: too large for any cache."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset

from snv.data.images import decode
from snv.data.locate import Options, find, places
from snv.data.task import Source, Split
from snv.errors import UserError
from snv.shapes import Indices, Labels, Pixels

SIZE = 224
PATTERNS = ("imagenet-1k/train", "imagenet/train", "ILSVRC2012/train", "ILSVRC/Data/CLS-LOC/train", "train")
SUFFIXES = (".jpeg", ".jpg", ".png")
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def load(options: Options) -> Source:
    """Training and, if there is one, validation part pooled; both as one folder per class."""
    train = find(PATTERNS, options.data_dir)
    if train is None:
        raise UserError(
            "ImageNet-1k was not found, and its licence asks everyone to download it in person (image-net.org). "
            f"Put its class folders into {places(options.data_dir)[0] / 'imagenet-1k' / 'train'}, or pass --data-dir."
        )
    names = tuple(sorted(entry.name for entry in train.iterdir() if entry.is_dir()))
    parts = [train] + [val for val in [train.with_name("val")] if val.is_dir()]
    strangers = {entry.name for entry in parts[-1].iterdir()} - set(names)
    if len(names) < 2 or (len(parts) == 2 and strangers):
        raise UserError(
            f"{parts[-1]} should hold one folder per class and nothing else; "
            f"found {min(strangers) if strangers else f'{len(names)} folders'}. Sort its images into class folders."
        )
    files, labels = _listing(parts, names)
    n_val = len(_listing(parts[1:], names)[0])
    return ImageNet(files, labels, names, options.size or SIZE, options.workers, n_val)


def _listing(parts: Sequence[Path], names: Sequence[str]) -> tuple[list[str], NDArray[np.int64]]:
    files: list[str] = []
    labels: list[int] = []
    for part in parts:
        for label, name in enumerate(names):
            folder = part / name
            images = sorted(str(file) for file in folder.iterdir() if file.name.lower().endswith(SUFFIXES))
            files += images
            labels += [label] * len(images)
    return files, np.array(labels, np.int64)


class ImageNet(Source):
    """Names of files with labels; images come as squares of 8/7 the final size, to be cropped on the device."""

    def __init__(
        self,
        files: Sequence[str],
        labels: NDArray[np.int64],
        class_names: tuple[str, ...],
        size: int,
        workers: int,
        n_val: int = 0,
    ) -> None:
        self.name, self.labels, self.class_names = "imagenet-1k", labels, class_names
        self.shape, self.mean, self.std, self.augmentation = (3, size, size), MEAN, STD, "resized-crop"
        self._files, self._workers, self._n_val = files, workers, n_val

    def n_official_test(self) -> int:
        """The official validation part, whose images come last."""
        return self._n_val

    @cached_property
    def _sizes(self) -> NDArray[np.int64]:
        return _sizes_of(self._files)

    def content(self) -> str:
        """Of names and sizes of the files, since to read them all takes hours."""
        digest = hashlib.blake2b(self._sizes.tobytes(), digest_size=8)
        for file in self._files:
            digest.update("/".join(Path(file).parts[-3:]).encode(errors="surrogateescape"))
        return digest.hexdigest()

    def split(self, indices: NDArray[np.int64], labels: Labels) -> OnDisk:
        files = [self._files[i] for i in indices.tolist()]
        changed = np.flatnonzero(_sizes_of(files) != self._sizes[indices])
        if len(changed):
            raise UserError(
                f"{files[changed[0]]} was changed or removed while it was in use. Restore it and run the same command "
                "again to continue, or start anew with another --out."
            )
        return OnDisk(files, labels, stored_size(self.shape[1]), self._workers)

    def part(self, rows: NDArray[np.int64]) -> ImageNet:
        files = [self._files[i] for i in rows.tolist()]
        return ImageNet(files, self.labels[rows], self.class_names, self.shape[1], self._workers)


def _sizes_of(files: Sequence[str]) -> NDArray[np.int64]:
    """Bytes of each file; −1 if it is gone."""
    return np.array([Path(file).stat().st_size if Path(file).exists() else -1 for file in files], np.int64)


def stored_size(size: int) -> int:
    """The side an image is resized to before it is cropped: 256 for 224."""
    return size * 8 // 7


class OnDisk(Split):
    """Images read from their files batch by batch, by ``workers`` processes, or by this one if there are none."""

    def __init__(self, files: Sequence[str], labels: Labels, size: int, workers: int = 0) -> None:
        self._files: Sequence[str] | None = files
        self.labels = labels
        self._size, self._workers = size, workers

    def batches(self, order: Iterable[Indices]) -> Iterator[tuple[Pixels, Labels]]:
        """The batches in order; ``order`` is read to its end first, so no draw depends on how far workers run ahead."""
        if self._files is None:
            raise RuntimeError("The images of this task are gone: a task's data exist only while it is learned.")
        loader = DataLoader(
            _Files(self._files, self._size),
            batch_sampler=[index.tolist() for index in order],
            num_workers=self._workers,
            collate_fn=_as_is,
            generator=torch.Generator(),  # otherwise every pass would draw from the global one
        )
        for index, pixels in loader:
            if isinstance(pixels, UserError):
                raise pixels
            yield pixels, self.labels[index]

    def close(self) -> None:
        self._files = None


class _Files(Dataset[object]):
    """What a worker gets: names of files, and nothing else."""

    def __init__(self, files: Sequence[str], size: int) -> None:
        self.files, self.size = files, size

    def __getitems__(self, index: list[int]) -> tuple[list[int], Pixels | UserError]:
        """One batch; an error is returned, since one raised in a worker arrives without its own words."""
        try:
            images = [decode(Path(self.files[i]), self.files[i], self.size) for i in index]
        except UserError as error:
            return index, error
        return index, torch.from_numpy(np.stack(images))


def _as_is(batch: Any) -> Any:
    return batch

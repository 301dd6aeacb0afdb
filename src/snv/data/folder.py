"""Your own pictures: a folder with one sub-folder per class, or an ``.npz`` file with images and labels."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from snv.data.archives import BROKEN, read_npz
from snv.data.arrays import Arrays, from_arrays
from snv.data.cache import Decoding, cached, mark_of
from snv.data.images import decode, is_picture
from snv.data.locate import Options
from snv.data.task import Source
from snv.errors import UserError
from snv.text import printable

log = logging.getLogger(__name__)

SIZE = 64
PARTS = {"train", "training", "val", "valid", "validation", "test"}


def load_folder(path: Path, options: Options) -> Source:
    """Every image below every class sub-folder, as RGB squares of ``size`` pixels (see `snv.data.images.decode`)."""
    root, size = path.expanduser().resolve(), options.size or SIZE
    classes = list_classes(root)
    files = [file for members in classes.values() for file in members]
    labels = np.repeat(np.arange(len(classes)), [len(members) for members in classes.values()])

    def decoding() -> Decoding:
        return Decoding(labels, tuple(classes), (decode(file, file, size) for file in files))

    pool = cached("folder", root, (3, size, size), mark_of(files), decoding, options.progress)
    half = (0.5, 0.5, 0.5)
    return Arrays(
        f"folder:{path}", pool.images, pool.labels, pool.class_names, half, half, augmentation="crop-flip", pool=pool
    )


def list_classes(root: Path) -> dict[str, list[Path]]:
    """The image files of each class, sorted; a folder that holds no classes, or a class without images, is refused."""
    if not root.is_dir():
        raise UserError(f"{root} is not a folder. Give a folder with one sub-folder of images per class.")
    entries = sorted(entry for entry in root.iterdir() if not entry.name.startswith("."))
    for entry in entries:
        _check_link(entry, root)
    folders = [entry for entry in entries if entry.is_dir()]
    if len(folders) < 2:
        raise UserError(
            f"{root} has {len(folders)} class folder{'s' * (len(folders) != 1)}; at least 2 are needed. "
            "Make one sub-folder of images per class."
        )
    if all(folder.name.lower() in PARTS for folder in folders):
        raise UserError(
            f"{root} is split into {' and '.join(folder.name for folder in folders)}, but its sub-folders should be "
            f"classes; snv splits each class itself. Give {folders[0]} instead."
        )
    classes = {_readable(folder.name): list(_images(folder, root)) for folder in folders}
    empty = next((folder for folder, files in zip(folders, classes.values(), strict=True) if not files), None)
    if empty:
        raise UserError(f"The class folder {empty} has no images. Add some, or remove the folder.")
    return classes


def _images(folder: Path, root: Path) -> Iterator[Path]:
    """The images in and below ``folder``, by name; hidden ones are ignored, and other files are too, with a notice."""
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith("."):
            continue
        _check_link(entry, root)
        if entry.is_dir():
            yield from _images(entry, root)
        elif is_picture(entry):
            yield entry
        else:
            log.warning("%s is ignored: %r is no image format that can be read.", printable(str(entry)), entry.suffix)


def _check_link(entry: Path, root: Path) -> None:
    """Refuse a link that leads anywhere but to a file inside ``root``: it could drag in anything, or go in circles."""
    if entry.is_symlink():
        target = Path(os.path.realpath(entry))  # a link to itself is an error for Path.resolve
        if not (target.is_file() and target.is_relative_to(root)):
            raise UserError(
                f"{entry} is a link to {target}; only links to files inside {root} are followed. "
                "Copy the images there, or remove the link."
            )


def _readable(name: str) -> str:
    """A file name as text that can be stored and shown, also where the file system holds other bytes."""
    return os.fsencode(name).decode(errors="replace")


def load_npz(path: Path, options: Options) -> Source:
    """Arrays ``images`` and ``labels`` of a NumPy archive, as in `from_arrays`."""
    path = path.expanduser()
    try:
        images, labels = read_npz(path, ("images", "labels")).values()
    except FileNotFoundError:
        raise UserError(f"{path} does not exist. Give a file made by numpy.savez(path, images=…, labels=…).") from None
    except BROKEN as error:
        raise UserError(
            f"{path} is no .npz file with plain arrays called images and labels ({error}). "
            "Make one with numpy.savez(path, images=…, labels=…)."
        ) from None
    source = from_arrays(images, labels, name=f"npz:{path}")
    options.fixed_size(source.name, source.shape[2])
    return source

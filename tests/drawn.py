"""Pictures drawn for tests: a shape of one colour per class, in a random place on a noisy ground."""

from __future__ import annotations

import colorsys
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from snv import Model
from snv.model.directory import Directory
from snv.model.knowledge import Knowledge
from snv.model.network import without_tasks

HUES = 13
BIRDS, FISH, TREES = ("crow", "robin"), ("perch", "pike", "trout"), ("elm", "oak")


def draw(name: str, i: int, size: tuple[int, int] = (22, 18)) -> Image.Image:
    """Picture i of a class; the same name always looks the same."""
    look, rng = zlib.crc32(name.encode()), np.random.default_rng([i, *name.encode()])
    noise = rng.integers(90, 130, (size[1], size[0], 3), dtype=np.uint8)
    picture = Image.fromarray(noise)
    colour = tuple(int(255 * x) for x in colorsys.hsv_to_rgb(look % HUES / HUES, 1, 1))
    left, top = rng.integers(0, 6, 2).tolist()
    paint = ImageDraw.Draw(picture)
    (paint.ellipse if look // HUES % 2 else paint.rectangle)((left, top, left + 11, top + 11), fill=colour)
    return picture


def make_pictures(root: Path, classes: tuple[str, ...], each: int = 12) -> Path:
    """A folder with one sub-folder of pictures per class."""
    for name in classes:
        (root / name).mkdir(parents=True)
        for i in range(each):
            draw(name, i).save(root / name / f"{i}.png")
    return root


def pairs(classes: tuple[str, ...], each: int = 6) -> list[tuple[Image.Image, str]]:
    """Pictures in memory, with the names of their classes."""
    return [(draw(name, i), name) for name in classes for i in range(each)]


def small_model(path: Path | None = None, **options: object) -> Model:
    """A model that learns in half a second."""
    return Model.create(path, **{"size": 16, "network": "convnet", "width": 8, "capacity": 0.3} | options)


def contents(root: Path) -> dict[str, bytes]:
    """Every file of a directory."""
    return {str(file.relative_to(root)): file.read_bytes() for file in sorted(root.rglob("*")) if file.is_file()}


def three_folders(root: Path) -> Path:
    """Pictures of three tasks."""
    for name, classes in {"birds": BIRDS, "fish": FISH, "trees": TREES}.items():
        make_pictures(root / name, classes, 8)
    return root


def model_without_common_space(path: Path) -> Model:
    """A small model as versions before the common space made them."""
    spec = small_model().knowledge.spec
    del spec["common"]
    return Model(Knowledge(spec, without_tasks(spec, None, "cpu")), Directory(path))


def taught_model(path: Path, pictures: Path, make: Callable[[Path], Model] = small_model) -> Path:
    """A model's directory with the first two tasks, to be copied."""
    model = make(path)
    for name in ("birds", "fish"):
        model.learn(pictures / name, epochs=2)
    return path

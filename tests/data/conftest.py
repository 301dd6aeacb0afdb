"""A cache folder of its own for every test, and the real Tiny-ImageNet subset decoded once per session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from snv.data import Source, from_arrays, load_source
from written import save


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("SNV_DATA", raising=False)
    monkeypatch.setenv("SNV_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def tiny60(tmp_path_factory: pytest.TempPathFactory, tiny_imagenet_dir: Path) -> Iterator[Source]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SNV_CACHE", str(tmp_path_factory.mktemp("tiny60")))
        yield load_source("tiny-imagenet", data_dir=tiny_imagenet_dir, size=32, download=False)


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    """A folder of two classes, three pictures each."""
    root = tmp_path / "pets"
    for name, colour in (("cat", (200, 10, 10)), ("dog", (10, 200, 10))):
        for i in range(3):
            save(root / name / f"{i}.png", colour)
    return root


@pytest.fixture
def marked() -> Source:
    """Six classes of 20 images; every pixel of an image of class c is c, or 100 + c in its first row."""
    labels = np.tile(np.arange(6), 20)
    images = np.broadcast_to(labels.astype(np.uint8)[:, None, None, None], (120, 4, 4, 3)).copy()
    images[:, 0] += 100
    return from_arrays(images, labels)

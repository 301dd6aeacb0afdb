"""A model that knows birds and fish, for every test anew."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from snv import Model


@pytest.fixture
def model(taught: Path, tmp_path: Path) -> Model:
    return Model.open(shutil.copytree(taught, tmp_path / "pets.snv"))

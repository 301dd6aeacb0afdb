"""A model that knows birds and fish, for every test anew."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from snv import Model


@pytest.fixture
def model(taught: Path, tmp_path: Path) -> Model:
    return Model.open(shutil.copytree(taught, tmp_path / "pets.snv"))


@pytest.fixture
def older(taught_before: Path, tmp_path: Path) -> Model:
    """One without a common space, as versions before it made them."""
    return Model.open(shutil.copytree(taught_before, tmp_path / "older.snv"))

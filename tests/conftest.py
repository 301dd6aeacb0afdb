"""Shapes are checked while tests run; everything here is small enough for one core."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from jaxtyping import install_import_hook

hook = install_import_hook("snv", "typecheck.check")  # before the first import of snv

import pytest  # noqa: E402
import torch  # noqa: E402

torch.set_num_threads(1)
sys.path.insert(0, str(Path(__file__).parent / "learners"))  # the toy stream, for other rooms too

TINY_IMAGENET = Path(__file__).parents[2] / "shared" / "data" / "tiny-imagenet-60.zip"


class Told(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Told]:
    """Call the command line in this process: exit code, standard output, standard error."""

    def call(*arguments: object) -> Told:
        from snv.cli.main import main

        monkeypatch.setattr(sys, "argv", ["snv", *map(str, arguments)])
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main()
                code = 0
            except SystemExit as stop:
                code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        return Told(code, out.getvalue(), err.getvalue())

    monkeypatch.setenv("SNV_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SNV_DATA", raising=False)
    return call


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of drawn pictures, one for each of three tasks: birds, fish and trees."""
    from drawn import three_folders

    return three_folders(tmp_path_factory.mktemp("pictures"))


@pytest.fixture(scope="session")
def taught(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a model that knows birds and fish; copy it before it is changed."""
    from drawn import taught_model

    return taught_model(tmp_path_factory.mktemp("taught") / "pets.snv", pictures)


@pytest.fixture(scope="session")
def taught_before(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same without a common space."""
    from drawn import model_without_common_space, taught_model

    return taught_model(tmp_path_factory.mktemp("taught before") / "pets.snv", pictures, model_without_common_space)


@pytest.fixture(scope="session")
def tiny_imagenet_dir() -> Path:
    """The folder of real Tiny-ImageNet pictures, where they are at hand."""
    if not TINY_IMAGENET.exists():
        pytest.skip("needs tiny-imagenet-60.zip in ../shared/data, which is not here")
    return TINY_IMAGENET.parent

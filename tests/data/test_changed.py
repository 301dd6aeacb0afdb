"""Data that change or disappear, under a run or between two parts of it, are noticed before anything is computed."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from snv.config import load_config
from snv.data.imagenet import ImageNet
from snv.errors import UserError
from snv.runs.run import run

SETTINGS = ["method=sgd", "data.tasks=2", "train.epochs=2", "network.name=mlp", "network.hidden=[8]", "threads=1"]


def draw(folder: Path, seed: int = 0) -> Path:
    """Four classes of ten pictures of noise."""
    rng = np.random.default_rng(seed)
    for name in ("ant", "bee", "cat", "dog"):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for i in range(10):
            Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(folder / name / f"{i}.png")
    return folder


@pytest.fixture
def pictures(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("SNV_CACHE", str(tmp_path / "cache"))
    return draw(tmp_path / "pictures")


def config(pictures: Path):
    return load_config(None, [*SETTINGS, f"data.name=folder:{pictures}", "data.size=8"])


def matrix_files(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (out / "checkpoints").glob("*")}


def test_a_picture_replaced_between_two_parts_of_a_run_is_found_by_its_pixels(pictures, tmp_path):
    """As many pictures, the same classes, the same names: only pixels differ."""
    run(config(pictures), tmp_path / "run", stop_after=1)
    before = matrix_files(tmp_path / "run")
    shutil.copy(pictures / "ant" / "0.png", pictures / "bee" / "3.png")
    with pytest.raises(UserError, match=r"The data of this run have changed .* the fingerprint of its pixels was"):
        run(config(pictures), tmp_path / "run")
    assert matrix_files(tmp_path / "run") == before, "nothing was computed on other data"


def test_restored_the_run_goes_on_to_the_same_bits(pictures, tmp_path):
    run(config(pictures), tmp_path / "whole")
    run(config(pictures), tmp_path / "run", stop_after=1)
    (pictures / "bee" / "3.png").rename(tmp_path / "away.png")
    with pytest.raises(UserError, match="have changed since it began"):
        run(config(pictures), tmp_path / "run")
    (tmp_path / "away.png").rename(pictures / "bee" / "3.png")
    run(config(pictures), tmp_path / "run")
    assert matrix_files(tmp_path / "run") == matrix_files(tmp_path / "whole")


def test_pictures_that_change_or_disappear_under_a_run_do_not_reach_it(pictures, tmp_path):
    """What it decoded when it began is what it learns."""
    run(config(pictures), tmp_path / "whole")

    def harm(what, done, total):
        if what.startswith("task 1 of 2, train"):
            (pictures / "cat" / "0.png").unlink(missing_ok=True)
            shutil.copy(pictures / "ant" / "0.png", pictures / "dog" / "3.png")

    run(config(pictures), tmp_path / "run", harm)
    assert matrix_files(tmp_path / "run") == matrix_files(tmp_path / "whole")


def the_cache(tmp_path: Path) -> Path:
    (images,) = (tmp_path / "cache" / "images").glob("folder-*/images.npy")
    return images


def overwritten(images: Path) -> None:
    """As a program would that does not know whose file it is."""
    with images.open("r+b") as file:
        file.seek(-100, 2)
        file.write(b"x" * 50)


def truncated(images: Path) -> None:
    """To read what is mapped and gone would end the process."""
    with images.open("r+b") as file:
        file.truncate(200)


@pytest.mark.parametrize("harm", [overwritten, truncated])
def test_a_cache_changed_under_a_run_is_noticed_and_the_run_goes_on_to_the_same_bits(harm, pictures, tmp_path):
    run(config(pictures), tmp_path / "whole")
    done: list[str] = []

    def once(what, *_):
        if what.startswith("task 1 of 2, train") and not done:
            harm(the_cache(tmp_path))
            done.append(what)

    with pytest.raises(UserError, match=r"images\.npy was changed while it was in use\. Run the same command again"):
        run(config(pictures), tmp_path / "run", once)
    run(config(pictures), tmp_path / "run")
    assert matrix_files(tmp_path / "run") == matrix_files(tmp_path / "whole")


def test_a_cache_removed_under_a_run_changes_nothing(pictures, tmp_path):
    run(config(pictures), tmp_path / "whole")
    run(config(pictures), tmp_path / "run", lambda *_: shutil.rmtree(tmp_path / "cache", ignore_errors=True))
    assert matrix_files(tmp_path / "run") == matrix_files(tmp_path / "whole")


def test_a_file_of_arrays_that_changed_or_is_gone_is_named(tmp_path):
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (40, 8, 8), dtype=np.uint8), np.arange(40) % 4
    asked = load_config(None, [*SETTINGS, f"data.name=npz:{tmp_path / 'a.npz'}"])
    np.savez(tmp_path / "a.npz", images=images, labels=labels)
    run(asked, tmp_path / "run", stop_after=1)
    images[7, 3, 3] ^= 1
    np.savez(tmp_path / "a.npz", images=images, labels=labels)
    with pytest.raises(UserError, match="the fingerprint of its pixels was"):
        run(asked, tmp_path / "run")
    (tmp_path / "a.npz").unlink()
    with pytest.raises(UserError, match=r"a\.npz does not exist"):
        run(asked, tmp_path / "run")


@pytest.mark.parametrize("harm", [lambda file: file.unlink(), lambda file: file.write_bytes(b"other")])
def test_an_image_that_is_read_while_training_and_is_not_what_it_was_is_named(harm, tmp_path):
    import torch

    files = sorted(map(str, draw(tmp_path).rglob("*.png")))
    labels = np.repeat(np.arange(4), 10)
    source = ImageNet(files, labels, ("ant", "bee", "cat", "dog"), 8, workers=0)
    before, rows = source.content(), np.arange(3, 7)
    assert len(source.split(rows, torch.zeros(4, dtype=torch.long))) == 4
    harm(Path(files[5]))
    with pytest.raises(UserError, match=rf"{Path(files[5]).name} was changed or removed while it was in use"):
        source.split(rows, torch.zeros(4, dtype=torch.long))
    assert ImageNet(files, labels, source.class_names, 8, workers=0).content() != before

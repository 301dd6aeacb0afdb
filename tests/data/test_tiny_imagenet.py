"""Tiny-ImageNet is read from its zip or folder, whole or in part, and a wrong member is named."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from snv.data import TaskStream, load_source
from snv.data.tiny_imagenet import class_names
from snv.errors import UserError
from written import images_of


def jpeg(colour: int | tuple[int, int, int], side: int = 64) -> bytes:
    mode = "L" if isinstance(colour, int) else "RGB"
    data = io.BytesIO()
    Image.new(mode, (side, side), colour).save(data, "JPEG")
    return data.getvalue()


def tiny_files() -> dict[str, bytes]:
    """Two classes with 3 training images and 1 for validation each; the second class is greyscale."""
    colours: dict[str, int | tuple[int, int, int]] = {"n01": (200, 0, 0), "n02": 90}
    files = {f"train/{wnid}/images/{wnid}_{i}.JPEG": jpeg(colour) for wnid, colour in colours.items() for i in range(3)}
    files |= {f"val/images/val_{i}.JPEG": jpeg(colour) for i, colour in enumerate(colours.values())}
    files["val/val_annotations.txt"] = b"val_1.JPEG\tn02\t0\t0\t9\t9\nval_0.JPEG\tn01\t0\t0\t9\t9\n"
    files["train/n01/n01_boxes.txt"] = b"ignored"
    files["words.txt"] = b"n01\tred thing, scarlet thing\nn02\tgrey thing\nn03\tabsent\n"
    files["test/images/test_0.JPEG"] = jpeg(0)
    return files


def write_tiny(path: Path, files: dict[str, bytes] | None = None) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in (files or tiny_files()).items():
            archive.writestr(f"tiny-imagenet-200/{name}", data)


def load_tiny(root: Path, size: int | None = None):
    return load_source("tiny-imagenet", data_dir=root, size=size, download=False)


@pytest.mark.parametrize("form", ["tiny-imagenet-200.zip", "tiny-imagenet-2.zip", "folder"])
@pytest.mark.parametrize("size", [None, 32])
def test_tiny_imagenet_pools_training_and_validation(tmp_path, form, size):
    if form == "folder":
        for name, data in tiny_files().items():
            file = tmp_path / "tiny-imagenet-200" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
    else:
        write_tiny(tmp_path / form)
    source = load_tiny(tmp_path, size)
    assert source.shape == (3, size or 64, size or 64)
    assert source.n_official_test() == 2
    assert source.class_names == ("red thing", "grey thing")
    assert source.labels.tolist() == [0, 0, 0, 1, 1, 1, 0, 1]
    images = images_of(source)
    assert (images[source.labels == 1] == 90).all()
    assert (images[source.labels == 0, 0] > 190).all()
    assert (images[source.labels == 0, 1] < 10).all()


def test_the_official_zip_is_preferred_to_a_subset(tmp_path):
    (tmp_path / "tiny-imagenet-100.zip").write_bytes(b"damaged")
    write_tiny(tmp_path / "tiny-imagenet-200.zip")
    assert load_tiny(tmp_path).n_classes == 2


def test_a_zip_may_be_given_itself(tmp_path):
    write_tiny(tmp_path / "tiny-imagenet-2.zip")
    assert load_tiny(tmp_path / "tiny-imagenet-2.zip").n_classes == 2


def test_a_changed_zip_is_noticed(tmp_path):
    write_tiny(tmp_path / "tiny-imagenet-2.zip")
    assert len(load_tiny(tmp_path).labels) == 8
    write_tiny(tmp_path / "tiny-imagenet-2.zip", tiny_files() | {"train/n02/images/more.JPEG": jpeg(90)})
    assert len(load_tiny(tmp_path).labels) == 9


def test_classes_that_share_a_word_get_different_names():
    names = class_names(["n1", "n2", "n3", "n4"], "n1\tcrane, bird\nn2\tcrane\nn3\tdrake, duck\n")
    assert names == ("crane (n1)", "crane (n2)", "drake", "n4")


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_truncated_zip_is_named_in_one_sentence(tmp_path, share):
    path = tmp_path / "tiny-imagenet-200.zip"
    write_tiny(path)
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    with pytest.raises(UserError, match=r"tiny-imagenet-200\.zip is damaged or incomplete \([^\n]*\)\. Remove it"):
        load_tiny(tmp_path)


def test_a_flipped_bit_in_a_zip_is_noticed(tmp_path):
    path = tmp_path / "tiny-imagenet-200.zip"
    write_tiny(path)
    data = bytearray(path.read_bytes())
    data[300] ^= 1
    path.write_bytes(data)
    with pytest.raises(UserError, match="is damaged or incomplete"):
        load_tiny(tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"train/n01/images/n01_0.JPEG": b"no image"}, r"n01_0\.JPEG cannot be read as an image"),
        ({"val/val_annotations.txt": b"val_7.JPEG\tn01\n"}, r"val/images/val_7\.JPEG is listed but missing"),
    ],
)
def test_a_wrong_member_of_the_zip_is_named(tmp_path, change, words):
    write_tiny(tmp_path / "tiny-imagenet-200.zip", tiny_files() | change)
    with pytest.raises(UserError, match=words):
        load_tiny(tmp_path)


def test_a_zip_of_something_else_is_refused(tmp_path):
    write_tiny(tmp_path / "tiny-imagenet-200.zip", {"readme.txt": b"hello"})
    with pytest.raises(UserError, match="no class folders"):
        load_tiny(tmp_path)


def test_the_real_subset_has_60_classes_of_550_images(tiny60):
    assert len(tiny60.labels) == 33_000
    np.testing.assert_array_equal(np.bincount(tiny60.labels), np.full(60, 550))
    assert len(set(tiny60.class_names)) == 60
    assert "goldfish" in tiny60.class_names
    task = TaskStream(tiny60, 10, seed=0).task(0)
    assert [len(split) for split in (task.train, task.val, task.test)] == [2310, 330, 660]
    pixels = next(task.train.batches([torch.arange(2310)]))[0] / 255
    torch.testing.assert_close(pixels.mean((0, 2, 3)), torch.tensor(tiny60.mean), atol=0.1, rtol=0)


def test_the_official_split_of_the_real_subset_tests_on_its_validation_part(tiny60):
    stream = TaskStream(tiny60, 6, 0, split="official")
    task = stream.task(0)
    assert [len(part) for part in (task.train, task.val, task.test)] == [4500, 500, 500]

from __future__ import annotations

import gc
import multiprocessing
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from snv.data import Preprocess, TaskStream, load_source
from snv.data.imagenet import OnDisk, stored_size
from snv.errors import UserError

ORDER = [torch.tensor([4, 0, 2]), torch.tensor([1, 3]), torch.tensor([5])]


@pytest.fixture
def root(tmp_path) -> Path:
    """Three classes with 10 training and 2 validation images of different shapes, each of one colour."""
    rng = np.random.default_rng(0)
    for i, name in enumerate(("n01", "n02", "n03")):
        for part, count in (("train", 10), ("val", 2)):
            folder = tmp_path / "imagenet-1k" / part / name
            folder.mkdir(parents=True)
            for k in range(count):
                size = tuple(rng.integers(40, 90, 2).tolist())
                Image.new("RGB", size, (80 * i, 10 * k, 50)).save(folder / f"{part}_{k}.JPEG", quality=95)
    return tmp_path


def test_class_folders_of_both_parts_are_pooled(root):
    source = load_source("imagenet-1k", data_dir=root)
    assert source.class_names == ("n01", "n02", "n03")
    np.testing.assert_array_equal(np.bincount(source.labels), [12, 12, 12])
    assert source.n_official_test() == 6
    assert source.shape == (3, 224, 224)
    assert stored_size(224) == 256


def test_a_missing_validation_part_is_skipped(root):
    for file in (root / "imagenet-1k" / "val").rglob("*.JPEG"):
        file.unlink()
    for folder in (root / "imagenet-1k" / "val").iterdir():
        folder.rmdir()
    (root / "imagenet-1k" / "val").rmdir()
    source = load_source("imagenet-1k", data_dir=root)
    assert (len(source.labels), source.n_official_test()) == (30, 0)


def test_unsorted_validation_images_are_refused(root):
    (root / "imagenet-1k" / "val" / "ILSVRC2012_val_00000001.JPEG").write_bytes(b"")
    with pytest.raises(UserError, match="ILSVRC2012_val_00000001"):
        load_source("imagenet-1k", data_dir=root)


def test_a_folder_without_classes_is_refused(tmp_path):
    (tmp_path / "train" / "only").mkdir(parents=True)
    with pytest.raises(UserError, match="found 1 folder"):
        load_source("imagenet-1k", data_dir=tmp_path)


def test_images_arrive_larger_and_are_cropped_to_the_size(root):
    source = load_source("imagenet-1k", data_dir=root, size=28)
    task = TaskStream(source, 3, seed=0).task(0)
    pixels, labels = next(task.train.batches([torch.arange(4)]))
    assert pixels.dtype == torch.uint8
    assert pixels.shape == (4, 3, 32, 32)
    assert set(labels.tolist()) <= set(task.block)
    for rng in (None, torch.Generator().manual_seed(0)):
        assert Preprocess.of(source)(pixels, "cpu", rng).shape == (4, 3, 28, 28)


def on_disk(root: Path, workers: int) -> OnDisk:
    split = TaskStream(load_source("imagenet-1k", data_dir=root, size=28, workers=workers), 1, seed=0).task(0).train
    assert isinstance(split, OnDisk)
    return split


def test_batches_are_the_same_with_any_number_of_workers(root):
    alone, helped = (list(on_disk(root, workers).batches(iter(ORDER))) for workers in (0, 2))
    for (a, b), (c, d), index in zip(alone, helped, ORDER, strict=True):
        assert torch.equal(a, c)
        assert torch.equal(b, d)
        assert len(b) == len(index)


def test_workers_leave_the_global_generator_alone(root):
    before = torch.random.get_rng_state()
    list(on_disk(root, 1).batches(ORDER))
    assert torch.equal(before, torch.random.get_rng_state())


def test_workers_are_gone_when_the_iterator_is_dropped(root):
    batches = on_disk(root, 2).batches(ORDER * 20)
    next(batches)
    assert len(multiprocessing.active_children()) == 2
    del batches
    gc.collect()
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("workers", [0, 1])
def test_an_image_that_does_not_decode_is_named(root, workers):
    bad = root / "imagenet-1k" / "train" / "n02" / "train_3.JPEG"
    bad.write_bytes(b"no image")
    split = OnDisk([str(bad)], torch.tensor([0]), 32, workers)
    with pytest.raises(UserError, match=rf"^{bad} cannot be read as an image \([^\n]*\)\. Replace it or remove it\.$"):
        list(split.batches([torch.tensor([0])]))


def test_a_split_holds_the_names_of_its_own_files_only(root):
    task = TaskStream(load_source("imagenet-1k", data_dir=root), 3, seed=0).task(1)
    assert {Path(file).parent.name for file in task.train._files} == set(task.names)
    assert len(task.train._files) == len(task.train)


def test_after_close_no_file_is_known(root):
    split = on_disk(root, 0)
    split.close()
    with pytest.raises(RuntimeError, match="gone"):
        next(split.batches(ORDER))

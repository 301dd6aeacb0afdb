"""MNIST and its likes are read from their files, and a wrong file is named."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from snv.data import TaskStream, load_source
from snv.errors import UserError
from written import IDX, idx, images_of, write_mnist


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("mnist", "mnist"),
        ("permuted-mnist", "MNIST/raw"),
        ("mnist", "."),
        ("fashion-mnist", "fashion-mnist"),
        ("fashion-mnist", "FashionMNIST/raw"),
    ],
)
def test_both_parts_of_mnist_are_pooled(tmp_path, name, folder, packed):
    images = write_mnist(tmp_path / folder, packed)
    source = load_source(name, data_dir=tmp_path, download=False)
    np.testing.assert_array_equal(images_of(source)[:, 0], images)
    np.testing.assert_array_equal(source.labels, np.arange(60) % 10)
    assert source.n_classes == 10
    assert source.augmentation == "none"


@pytest.mark.parametrize("harm", [lambda d: d[:-1], lambda d: d + b"x", lambda d: b"\0\0\x09" + d[3:], lambda d: d[:5]])
@pytest.mark.parametrize("file", IDX)
def test_a_wrong_idx_file_is_named(tmp_path, file, harm):
    write_mnist(tmp_path, packed=False)
    path = tmp_path / file
    path.write_bytes(harm(path.read_bytes()))
    with pytest.raises(UserError, match=f"{file} is damaged or incomplete"):
        load_source("mnist", data_dir=tmp_path, download=False)


@pytest.mark.parametrize("harm", [lambda d: d[:-20], lambda d: b"no gzip", lambda d: d[:50] + b"\xff" * 9 + d[59:]])
def test_a_truncated_gz_is_named(tmp_path, harm):
    write_mnist(tmp_path)
    path = tmp_path / f"{IDX[0]}.gz"
    path.write_bytes(harm(path.read_bytes()))
    with pytest.raises(UserError, match=rf"{path.name} is damaged or incomplete \(.*\)\. Remove it"):
        load_source("mnist", data_dir=tmp_path, download=False)


def test_images_and_labels_of_different_number_are_refused(tmp_path):
    write_mnist(tmp_path, packed=False)
    (tmp_path / IDX[1]).write_bytes(idx(np.zeros(39, np.uint8)))
    with pytest.raises(UserError, match="39 labels"):
        load_source("mnist", data_dir=tmp_path, download=False)


def test_labels_beyond_nine_are_refused(tmp_path):
    write_mnist(tmp_path, labels=np.full(60, 11, np.uint8))
    with pytest.raises(UserError, match="label 11"):
        load_source("mnist", data_dir=tmp_path, download=False)


def test_clothes_are_not_taken_for_digits(tmp_path):
    write_mnist(tmp_path, labels=np.resize(np.array([9, 0, 0, 3, 0, 2, 7, 2], np.uint8), 60))
    with pytest.raises(UserError, match="belongs to Fashion-MNIST"):
        load_source("mnist", data_dir=tmp_path, download=False)


def test_official_test_images_are_the_second_part(tmp_path):
    images = write_mnist(tmp_path)
    source = load_source("mnist", data_dir=tmp_path, download=False)
    stream = TaskStream(source, 1, 0, split="official")
    test = stream.task(0).test
    shown = next(test.batches([torch.arange(len(test))]))[0].numpy()[:, 0]
    np.testing.assert_array_equal(shown, images[-source.n_official_test() :])
    assert (source.n_official_test(), len(stream.task(0).train) + len(stream.task(0).val)) == (20, 40)

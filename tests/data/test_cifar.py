"""CIFAR is read from its files without running them, and a wrong file is named."""

from __future__ import annotations

import io
import os
import pickle
import struct
import tarfile
from pathlib import Path

import numpy as np
import pytest

from snv.data import load_source
from snv.errors import UserError
from written import images_of


def cifar_parts(variant: str) -> tuple[str, dict[str, object], np.ndarray]:
    """The folder of the archive, its files, and the pooled images."""
    rng = np.random.default_rng(1)
    if variant == "cifar10":
        parts, folder, meta, key, classes = (
            *([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"], "cifar-10-batches-py"),
            *("batches.meta", b"label", 10),
        )
    else:
        parts, folder, meta, key, classes = ["train", "test"], "cifar-100-python", "meta", b"fine_label", 100
    images = rng.integers(0, 256, (len(parts), classes, 3072), dtype=np.uint8)
    files: dict[str, object] = {
        part: {b"data": data, key + b"s": list(range(classes)), b"coarse_labels": [0] * classes}
        for part, data in zip(parts, images, strict=True)
    }
    files[meta] = {key + b"_names": [b"class %d" % i for i in range(classes)]}
    return folder, files, images.reshape(-1, 3, 32, 32)


def write_tar(path: Path, files: dict[str, bytes]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


def write_cifar(root: Path, variant: str, packed: bool = True, **changes: object) -> np.ndarray:
    folder, files, images = cifar_parts(variant)
    data = {name: pickle.dumps(content, protocol=3) for name, content in (files | changes).items()}
    if packed:
        name = "cifar-10-python.tar.gz" if variant == "cifar10" else "cifar-100-python.tar.gz"
        write_tar(root / name, {f"{folder}/{name}": content for name, content in data.items()})
    else:
        (root / folder).mkdir()
        for name, content in data.items():
            (root / folder / name).write_bytes(content)
    return images


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(("variant", "classes"), [("cifar10", 10), ("cifar100", 100)])
def test_both_parts_of_cifar_are_pooled(tmp_path, variant, classes, packed):
    images = write_cifar(tmp_path, variant, packed)
    source = load_source(variant, data_dir=tmp_path, download=False)
    np.testing.assert_array_equal(images_of(source), images)
    np.testing.assert_array_equal(source.labels, np.tile(np.arange(classes), len(images) // classes))
    assert source.class_names[3] == "class 3"
    assert source.shape == (3, 32, 32)
    assert source.n_official_test() == classes, "the last part"


def test_a_pickle_as_python_2_wrote_it_is_read(tmp_path):
    """The official files are Python 2 pickles: byte strings, and NumPy under its old name."""

    def short(text: bytes) -> bytes:
        return b"U" + bytes([len(text)]) + text

    pixels = np.arange(3 * 3072, dtype=np.int64).astype(np.uint8)
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85" + short(b"b") + b"tR"
        b"(K\x01K\x03M\x00\x0c\x86cnumpy\ndtype\n(" + short(b"u1") + b"K\x00K\x01tR"
        b"(K\x03" + short(b"|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
        b"T" + struct.pack("<i", pixels.size) + pixels.tobytes() + b"tb"
    )
    batch = b"\x80\x02}(" + short(b"data") + array + short(b"labels") + b"](K\x00K\x01K\x02eu."
    folder, files, _ = cifar_parts("cifar10")
    (tmp_path / folder).mkdir()
    for name in files:
        meta = pickle.dumps({b"label_names": [b"a", b"b", b"c"]}, protocol=3)
        (tmp_path / folder / name).write_bytes(meta if name == "batches.meta" else batch)
    source = load_source("cifar10", data_dir=tmp_path, download=False)
    np.testing.assert_array_equal(images_of(source)[:3].reshape(-1), pixels)
    np.testing.assert_array_equal(source.labels, np.tile(np.arange(3), 6))


class Evil:
    def __reduce__(self):
        return (os.mkdir, ("evil-was-here",))


def test_a_pickle_that_wants_to_run_something_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_cifar(tmp_path, "cifar10", test_batch={b"data": Evil()})
    with pytest.raises(UserError, match=r"cifar-10-python\.tar\.gz is damaged .*test_batch: it asks for posix\.mkdir"):
        load_source("cifar10", data_dir=tmp_path, download=False)
    assert not (tmp_path / "evil-was-here").exists()


@pytest.mark.parametrize(
    "content",
    [
        {b"data": np.zeros((2, 3072), np.uint8), b"labels": [0]},
        {b"data": np.zeros((1, 3072), np.float32), b"labels": [0]},
        {b"data": np.zeros((1, 3072), np.uint8), b"labels": [10]},
        {b"data": np.zeros((1, 3072), np.uint8)},
        [1, 2],
    ],
)
def test_a_wrong_part_of_cifar_is_named(tmp_path, content):
    write_cifar(tmp_path, "cifar10", test_batch=content)
    with pytest.raises(UserError, match=r"cifar-10-python\.tar\.gz is damaged or incomplete \(test_batch"):
        load_source("cifar10", data_dir=tmp_path, download=False)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_truncated_tar_is_named_in_one_sentence(tmp_path, share):
    write_cifar(tmp_path, "cifar10")
    path = tmp_path / "cifar-10-python.tar.gz"
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    with pytest.raises(UserError, match=r"cifar-10-python\.tar\.gz is damaged or incomplete \([^\n]*\)\. Remove it"):
        load_source("cifar10", data_dir=tmp_path, download=False)


def test_an_incomplete_cifar_folder_is_named(tmp_path):
    write_cifar(tmp_path, "cifar100", packed=False)
    (tmp_path / "cifar-100-python" / "meta").unlink()
    with pytest.raises(UserError, match=r"cifar-100-python is damaged or incomplete \(meta is missing"):
        load_source("cifar100", data_dir=tmp_path, download=False)

from __future__ import annotations

import gzip
import io
import os
import pickle
import struct
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from snv.data import SOURCES, TaskStream, from_arrays, is_permuted, load_source
from snv.data.tiny_imagenet import class_names
from snv.errors import UserError


def images_of(source) -> np.ndarray:
    """All images of a source, as (n, c, h, w)."""
    index = np.arange(len(source.labels))
    split = source.split(index, torch.from_numpy(source.labels))
    return next(split.batches([torch.from_numpy(index)]))[0].numpy()


# ---------------------------------------------------------------------------------------------- the catalogue


def test_an_unknown_name_is_answered_with_the_nearest_and_the_whole_list():
    with pytest.raises(UserError, match=r"Did you mean 'cifar100'\? Known: digits, .*npz:PATH"):
        load_source("cifar-100")


@pytest.mark.parametrize("name", ["folder", "folder:", "npz"])
def test_a_folder_without_a_path_is_asked_for_one(name):
    with pytest.raises(UserError, match="PATH"):
        load_source(name)


def test_the_catalogue_says_which_streams_are_permuted():
    assert [name for name in SOURCES if is_permuted(name)] == ["permuted-digits", "permuted-mnist"]
    assert not is_permuted("folder:somewhere")


@pytest.mark.parametrize(("option", "value"), [("size", 0), ("size", 10**6), ("workers", -1)])
def test_impossible_options_are_refused(option, value):
    with pytest.raises(UserError, match=f"{option} is"):
        load_source("digits", **{option: value})


@pytest.mark.parametrize("name", ["digits", "mnist", "cifar10"])
def test_images_of_one_size_are_not_resized(name):
    with pytest.raises(UserError, match="Leave size out"):
        load_source(name, size=48, download=False)


# ---------------------------------------------------------------------------------------------- digits


def test_the_embedded_digits_are_those_of_scikit_learn():
    sklearn = pytest.importorskip("sklearn.datasets", reason="scikit-learn is the reference and is not installed")
    digits, source = sklearn.load_digits(), load_source("digits")
    np.testing.assert_array_equal(images_of(source)[:, 0], np.rint(digits.images * 255 / 16))
    np.testing.assert_array_equal(source.labels, digits.target)


def test_digits_are_standardised_by_their_own_mean_and_deviation():
    source = load_source("digits")
    assert source.shape == (1, 8, 8)
    pixels = images_of(source) / 255
    np.testing.assert_allclose([pixels.mean(), pixels.std()], [*source.mean, *source.std], atol=1e-4)


# ---------------------------------------------------------------------------------------------- MNIST

IDX = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">BBBB{array.ndim}i", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def write_mnist(folder: Path, packed: bool = True, labels: np.ndarray | None = None) -> np.ndarray:
    """The four official files with 40 and 20 random images; the pooled images come back."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (60, 28, 28), dtype=np.uint8)
    numbers = (np.arange(60) % 10).astype(np.uint8) if labels is None else labels
    for name, array in zip(IDX, (images[:40], numbers[:40], images[40:], numbers[40:]), strict=True):
        path = folder / (name + ".gz" * packed)
        path.write_bytes(gzip.compress(idx(array)) if packed else idx(array))
    return images


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


@pytest.mark.parametrize("place", ["data_dir", "SNV_DATA", "cache"])
def test_files_are_found_in_every_place(tmp_path, monkeypatch, cache, place):
    where = cache if place == "cache" else tmp_path / "elsewhere"
    write_mnist(where / "mnist")
    if place == "SNV_DATA":
        monkeypatch.setenv("SNV_DATA", str(where))
    source = load_source("mnist", data_dir=where if place == "data_dir" else None, download=False)
    assert len(source.labels) == 60


def test_the_folder_of_a_dataset_may_be_given_itself(tmp_path):
    write_mnist(tmp_path / "fashion-mnist")
    assert load_source("fashion-mnist", data_dir=tmp_path / "fashion-mnist", download=False).n_classes == 10


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


# ---------------------------------------------------------------------------------------------- CIFAR


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


# ---------------------------------------------------------------------------------------------- Tiny-ImageNet


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


# ---------------------------------------------------------------------------------------------- your own images


def save(path: Path, colour, size=(80, 60), mode="RGB", **options) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour).save(path, **options)


@pytest.fixture
def pets(tmp_path) -> Path:
    root = tmp_path / "pets"
    for name, colour in (("cat", (200, 10, 10)), ("dog", (10, 200, 10))):
        for i in range(3):
            save(root / name / f"{i}.png", colour)
    return root


def load_folder(root: Path, size: int | None = None):
    return load_source(f"folder:{root}", size=size)


@pytest.mark.parametrize("size", [None, 16])
def test_every_sub_folder_is_a_class(pets, size):
    source = load_folder(pets, size)
    assert source.class_names == ("cat", "dog")
    assert source.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert source.shape == (3, size or 64, size or 64)
    assert (images_of(source)[0, 0] == 200).all()


@pytest.mark.parametrize("suffix", ["jpg", "JPEG", "png", "bmp", "gif", "webp", "tiff", "ppm"])
def test_any_format_that_pillow_reads_will_do(pets, suffix):
    save(pets / "cat" / f"deep/er/x.{suffix}", (200, 10, 10))
    images = images_of(load_folder(pets))
    assert len(images) == 7
    assert abs(images[3, 0].astype(int) - 200).max() < 8


def test_hidden_and_other_files_are_ignored(pets, caplog):
    (pets / ".DS_Store").write_text("x")
    (pets / "cat" / ".thumbnail.png").write_text("x")
    (pets / ".git").mkdir()
    (pets / "readme.txt").write_text("x")
    (pets / "dog" / "notes.txt").write_text("x")
    assert len(load_folder(pets).labels) == 6
    assert "notes.txt is ignored" in caplog.text


def test_the_longer_side_is_cropped_at_both_ends(pets):
    wide = Image.new("RGB", (200, 100))
    wide.paste((255, 255, 255), (50, 0, 150, 100))
    wide.save(pets / "cat" / "0.png")
    assert (images_of(load_folder(pets))[0][:, :, 2:-2] == 255).all()


def test_orientation_is_honoured(pets):
    picture = Image.new("RGB", (60, 60))
    picture.paste((255, 0, 0), (0, 0, 60, 30))  # red on top; the tag says: turn it upside down
    exif = Image.Exif()
    exif[0x0112] = 3
    picture.save(pets / "cat" / "0.png", exif=exif)
    red = images_of(load_folder(pets))[0, 0]
    assert (red[:28] == 0).all()
    assert (red[36:] == 255).all()


@pytest.mark.parametrize(
    ("mode", "colour", "expected"),
    [
        ("L", 77, (77, 77, 77)),
        ("1", 1, (255, 255, 255)),
        ("RGBA", (9, 9, 9, 0), (255, 255, 255)),
        ("LA", (40, 255), (40, 40, 40)),
        ("I;16", 257 * 50, (50, 50, 50)),
        ("P", 0, (0, 0, 0)),
        ("F", 0.5, (128, 128, 128)),
        ("CMYK", (0, 0, 0, 0), (255, 255, 255)),
    ],
)
def test_every_kind_of_pixel_becomes_colour(pets, mode, colour, expected):
    save(pets / "cat" / "9.tiff", colour, mode=mode)
    assert images_of(load_folder(pets))[3, :, 30, 30].tolist() == list(expected)


def test_a_folder_is_decoded_once_and_changes_are_noticed(pets):
    calls: list[tuple[str, int, int]] = []

    def load():
        return load_source(f"folder:{pets}", progress=lambda *call: calls.append(call))

    load(), load()
    assert calls == [("Decoding folder", 6, 6)]
    save(pets / "cat" / "1.png", (1, 2, 3), size=(90, 90))
    assert images_of(load())[1, :, 0, 0].tolist() == [1, 2, 3]
    (pets / "dog" / "2.png").unlink()
    assert len(load().labels) == 5


@pytest.mark.parametrize("content", [b"", b"no image at all", None])
def test_an_image_that_does_not_decode_is_named(pets, content):
    path = pets / "dog" / "1.png"
    path.write_bytes(path.read_bytes()[:60] if content is None else content)
    with pytest.raises(UserError, match=r"dog/1\.png cannot be read as an image"):
        load_folder(pets)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_float_image_with_pixels_that_are_no_numbers_is_named(pets, value):
    pixels = np.full((8, 8), 0.5, np.float32)
    pixels[2, 3] = value
    Image.fromarray(pixels).save(pets / "dog" / "bad.tiff")
    with pytest.raises(UserError, match=r"dog/bad\.tiff has pixels that are not numbers"):
        load_folder(pets)


def test_a_float_image_beyond_one_is_named(pets):
    Image.fromarray(np.full((8, 8), 3.5, np.float32)).save(pets / "dog" / "bad.tiff")
    with pytest.raises(UserError, match=r"bad\.tiff has pixels from 0 to 3\.5"):
        load_folder(pets)


@pytest.mark.parametrize("limit", [3000, 2000])  # a warning of Pillow's, and an error
def test_an_image_made_to_exhaust_memory_is_named(pets, monkeypatch, limit):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    with pytest.raises(UserError, match=r"cat/0\.png has more than [23],000 pixels"):
        load_folder(pets)


def test_a_class_without_images_is_named(pets):
    (pets / "fish").mkdir()
    (pets / "fish" / "notes.txt").write_text("none yet")
    with pytest.raises(UserError, match=r"pets/fish has no images"):
        load_folder(pets)


def test_one_class_is_not_enough(tmp_path):
    save(tmp_path / "pets" / "cat" / "0.png", 0)
    with pytest.raises(UserError, match=r"pets has 1 class folder; at least 2"):
        load_folder(tmp_path / "pets")


@pytest.mark.parametrize("name", ["nowhere", "file"])
def test_a_folder_that_is_none_is_named(tmp_path, name):
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match=f"{name} is not a folder"):
        load_folder(tmp_path / name)


def test_a_folder_that_is_already_split_is_not_taken_for_two_classes(tmp_path):
    for part in ("train", "val"):
        save(tmp_path / "pets" / part / "cat" / "0.png", 0)
    with pytest.raises(UserError, match="split into train and val"):
        load_folder(tmp_path / "pets")


def test_links_to_files_inside_are_followed(pets):
    (pets / "dog" / "link.png").symlink_to(pets / "dog" / "0.png")
    assert len(load_folder(pets).labels) == 7


@pytest.mark.parametrize("where", ["cat/link.png", "cat/deep", "lion", "cat/loop"])
def test_links_that_lead_elsewhere_are_refused(pets, tmp_path, where):
    save(tmp_path / "secret" / "0.png", 0)
    target = {"cat/link.png": tmp_path / "secret" / "0.png", "cat/loop": pets / "cat"}.get(where, tmp_path / "secret")
    (pets / where).symlink_to(target)
    with pytest.raises(UserError, match=f"{where} is a link to {target}"):
        load_folder(pets)


@pytest.mark.parametrize("target", ["gone.png", "self.png"])
def test_links_to_nothing_are_refused(pets, target):
    (pets / "cat" / "self.png").symlink_to(target)
    with pytest.raises(UserError, match=r"self\.png is a link"):
        load_folder(pets)


# ---------------------------------------------------------------------------------------------- arrays


def test_an_npz_is_read_as_it_is(tmp_path):
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (12, 6, 5, 3), dtype=np.uint8), np.tile([7, 3, 10], 4)
    np.savez(tmp_path / "a.npz", images=images, labels=labels)
    source = load_source(f"npz:{tmp_path / 'a.npz'}")
    np.testing.assert_array_equal(images_of(source), images.transpose(0, 3, 1, 2))
    assert source.class_names == ("3", "7", "10")
    assert source.labels.tolist() == [1, 0, 2] * 4
    assert source.shape == (3, 6, 5)
    assert source.augmentation == "crop-flip"


def test_grey_images_floats_and_strings_will_do():
    source = from_arrays(np.linspace(0, 1, 6 * 4).reshape(6, 2, 2), ["b", "a"] * 3)
    assert source.shape == (1, 2, 2)
    assert source.class_names == ("a", "b")
    assert source.augmentation == "none"
    assert images_of(source).max() == 255


def test_names_can_be_given_to_labels():
    source = from_arrays(np.zeros((4, 2, 2), np.uint8), [0, 1, 1, 0], class_names=["cat", "dog"])
    assert source.class_names == ("cat", "dog")
    assert source.labels.tolist() == [0, 1, 1, 0]


GOOD = np.zeros((4, 2, 2), np.uint8)


@pytest.mark.parametrize(
    ("images", "labels", "names", "words"),
    [
        (GOOD, [0, 1, 1], None, "4 images but 3 labels"),
        (GOOD, [0, 0, 0, 0], None, "1 class; .* at least 2"),
        (GOOD, [0.0, 1.0, 0.0, 1.0], None, "labels of arrays are float64"),
        (GOOD, [0, 1, 2, 0], ["a", "b"], "names 2 classes"),
        (GOOD, [0, 1, 1, 0], ["a", "b", "c"], "names 3 classes"),
        (GOOD.astype(np.int64), [0, 1, 0, 1], None, "images of arrays are int64"),
        (np.zeros((4, 3, 8, 8), np.uint8), [0, 1, 0, 1], None, "with 1 or 3 channels"),
        (np.zeros((0, 8, 8), np.uint8), [], None, "at least one image"),
        (np.zeros((4, 8), np.uint8), [0, 1, 0, 1], None, r"have the shape \(4, 8\)"),
        (GOOD + 2.0, [0, 1, 0, 1], None, "Image 0 of arrays has pixels from 0 to 2"),
        (
            np.where(np.arange(4)[:, None, None] == 2, np.nan, GOOD),
            [0, 1, 0, 1],
            None,
            "Image 2 of arrays .* not numbers",
        ),
    ],
)
def test_arrays_that_make_no_dataset_are_refused(images, labels, names, words):
    with pytest.raises(UserError, match=words):
        from_arrays(images, labels, names)


@pytest.mark.parametrize(
    "content", [{"images": GOOD}, {"images": GOOD, "labels": np.array([None] * 4)}, b"no archive", b"PK\x03\x04", b""]
)
def test_a_file_that_is_no_dataset_is_named(tmp_path, content):
    path = tmp_path / "a.npz"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        np.savez(path, **content)
    with pytest.raises(UserError, match=r"a\.npz is no \.npz file"):
        load_source(f"npz:{path}")


def test_an_npz_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(UserError, match=r"nowhere\.npz does not exist"):
        load_source(f"npz:{tmp_path / 'nowhere.npz'}")


def test_an_npz_is_not_resized(tmp_path):
    np.savez(tmp_path / "a.npz", images=GOOD, labels=[0, 1, 0, 1])
    with pytest.raises(UserError, match="2 pixels wide; got size = 8"):
        load_source(f"npz:{tmp_path / 'a.npz'}", size=8)

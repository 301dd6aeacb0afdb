"""A person's own folder or file of arrays is a dataset, if it can be one."""

from __future__ import annotations

import numpy as np
import pytest

from snv.data import load_source
from snv.errors import UserError
from written import BLANK, images_of, load_folder, save


@pytest.mark.parametrize("size", [None, 16])
def test_every_sub_folder_is_a_class(pets, size):
    source = load_folder(pets, size)
    assert source.class_names == ("cat", "dog")
    assert source.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert source.shape == (3, size or 64, size or 64)
    assert (images_of(source)[0, 0] == 200).all()


def test_hidden_and_other_files_are_ignored(pets, caplog):
    (pets / ".DS_Store").write_text("x")
    (pets / "cat" / ".thumbnail.png").write_text("x")
    (pets / ".git").mkdir()
    (pets / "readme.txt").write_text("x")
    (pets / "dog" / "notes.txt").write_text("x")
    assert len(load_folder(pets).labels) == 6
    assert "notes.txt is ignored" in caplog.text


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


@pytest.mark.parametrize(
    "content", [{"images": BLANK}, {"images": BLANK, "labels": np.array([None] * 4)}, b"no archive", b"PK\x03\x04", b""]
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
    np.savez(tmp_path / "a.npz", images=BLANK, labels=[0, 1, 0, 1])
    with pytest.raises(UserError, match="2 pixels wide; got size = 8"):
        load_source(f"npz:{tmp_path / 'a.npz'}", size=8)

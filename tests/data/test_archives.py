"""Compressed files give what they should and no more, and write nothing anywhere."""

from __future__ import annotations

import gzip
import io
import resource
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from hostile import Touch
from snv.data.archives import BROKEN, TooLargeError, gunzipped, read_npz, tar_members, zip_member

ZEROS = bytes(2**20)


def write_tar(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for member, data in members:
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, link
    return made


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_names_that_lead_elsewhere_lead_nowhere(tmp_path):
    inside = tmp_path / "a" / "b"
    inside.mkdir(parents=True)
    evil = [(member(name), b"evil") for name in ("../evil", str(tmp_path / "evil"), "../../x/train", "x/../../test")]
    path = write_tar(inside / "x.tar.gz", *evil)
    assert tar_members(path, {"train", "test"}, 2**20) == {"train": b"evil", "test": b"evil"}
    assert {p.name for p in tmp_path.rglob("*")} == {"a", "b", "x.tar.gz"}


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE])
def test_links_devices_pipes_and_folders_are_no_files(tmp_path, kind):
    path = write_tar(tmp_path / "x.tar.gz", (member("train", kind, "/etc/passwd"), b""), (member("test"), b"ok"))
    assert tar_members(path, {"train", "test"}, 2**20) == {"test": b"ok"}


@pytest.mark.parametrize("name", ["train", "something else"])
def test_a_tar_that_unpacks_to_far_more_than_it_has_is_refused(tmp_path, name):
    path = tmp_path / "x.tar.gz"
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        big = member(name)
        big.size = 80 * len(ZEROS)
        archive.addfile(big, io.BytesIO(ZEROS * 80))
    before = peak()
    with pytest.raises(TooLargeError, match="unpacks to more than"):
        tar_members(path, {"train"}, 2**23)
    assert peak() - before < 2**25


def test_a_header_that_announces_a_huge_name_is_refused(tmp_path):
    long = member("././@LongLink", tarfile.GNUTYPE_LONGNAME)
    long.size = 2**33
    with gzip.open(tmp_path / "x.tar.gz", "wb") as file:
        file.write(long.tobuf(tarfile.GNU_FORMAT))
        for _ in range(20):
            file.write(ZEROS)
    with pytest.raises(BROKEN):
        tar_members(tmp_path / "x.tar.gz", {"train"}, 2**23)


def test_a_gz_that_unpacks_to_far_more_than_it_may_is_refused_before_it_fills_memory(tmp_path):
    path = tmp_path / "x.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(80):
            file.write(ZEROS)
    before = peak()
    with pytest.raises(TooLargeError, match="more than 1,000,000 bytes"):
        gunzipped(path, 10**6)
    assert peak() - before < 2**25


@pytest.mark.parametrize("declared", [None, 100])
def test_a_zip_member_is_no_larger_than_it_may_be_whatever_it_declares(tmp_path, declared):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.JPEG", ZEROS * 80)
        if declared:
            archive.getinfo("a.JPEG").file_size = declared
    before = peak()
    with zipfile.ZipFile(path) as archive, pytest.raises(BROKEN):
        zip_member(archive, "a.JPEG", 2**20)
    assert peak() - before < 2**25


def test_arrays_that_would_unpack_to_far_more_than_the_file_has_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("snv.data.archives.MODEST", 2**20)
    np.savez_compressed(tmp_path / "x.npz", images=np.zeros((100, 200, 200, 3), np.uint8), labels=np.zeros(100))
    with pytest.raises(TooLargeError, match=r"would unpack to 12,00.,... bytes"):
        read_npz(tmp_path / "x.npz", ("images", "labels"))
    np.savez(tmp_path / "stored.npz", images=np.zeros((100, 200, 200, 3), np.uint8))
    assert read_npz(tmp_path / "stored.npz", ("images",))["images"].shape == (100, 200, 200, 3)


def test_an_array_that_announces_more_than_it_has_is_refused_before_there_is_room_made_for_it(tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (10**13,)})
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("images.npy", header.getvalue() + b"few")
    with pytest.raises(ValueError, match="does not hold"):
        read_npz(tmp_path / "x.npz", ("images",))


def test_an_array_of_pickled_objects_is_not_unpickled(tmp_path):
    objects = np.array([Touch(tmp_path / "touched")], dtype=object)
    np.savez(tmp_path / "x.npz", images=objects)
    with pytest.raises(ValueError, match="does not hold"):
        read_npz(tmp_path / "x.npz", ("images",))
    assert not (tmp_path / "touched").exists()


def test_a_zip_with_a_password_is_an_error_that_is_caught(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("images.npy", b"x")
    data = bytearray((tmp_path / "x.npz").read_bytes())
    for signature, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + at] |= 1  # encrypted
    (tmp_path / "x.npz").write_bytes(data)
    with pytest.raises(BROKEN):
        read_npz(tmp_path / "x.npz", ("images",))

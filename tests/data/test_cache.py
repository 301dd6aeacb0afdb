from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from snv.data.cache import Decoding, cached, mark_of
from snv.data.locate import silent
from snv.errors import UserError

SHAPE = (1, 4, 4)
IMAGES = np.random.default_rng(0).integers(0, 256, (300, *SHAPE), dtype=np.uint8)
LABELS = np.arange(300) % 3


class Counted:
    """A dataset that knows how often it was decoded."""

    def __init__(self, images: np.ndarray = IMAGES) -> None:
        self.times, self.images = 0, images

    def __call__(self) -> Decoding:
        self.times += 1
        return Decoding(LABELS, ("a", "b", "c"), self.images)


def get(decode: Counted, where: Path, mark: str = "m", progress=silent):
    return cached("toy", where, SHAPE, mark, decode, progress)


def files(cache: Path, name: str) -> Path:
    (found,) = cache.rglob(name)
    return found


def test_images_are_decoded_once_and_mapped_afterwards(tmp_path):
    decode = Counted()
    for _ in range(2):
        pool = get(decode, tmp_path)
        np.testing.assert_array_equal(pool.images, IMAGES)
        np.testing.assert_array_equal(pool.labels, LABELS)
        assert pool.class_names == ("a", "b", "c")
        assert isinstance(pool.images, np.memmap)
        assert not pool.images.flags.writeable
    assert decode.times == 1


def test_changed_inputs_are_decoded_anew_and_replace_the_old_cache(tmp_path, cache):
    get(Counted(), tmp_path, "old")
    changed = Counted(255 - IMAGES)
    np.testing.assert_array_equal(get(changed, tmp_path, "new").images, 255 - IMAGES)
    assert changed.times == 1
    assert len(list(cache.rglob("images.npy"))) == 1


def test_an_open_cache_keeps_its_images_when_it_is_replaced(tmp_path):
    old = get(Counted(), tmp_path, "old").images
    get(Counted(255 - IMAGES), tmp_path, "new")
    np.testing.assert_array_equal(old, IMAGES)


def test_other_sizes_and_other_places_have_caches_of_their_own(tmp_path, cache):
    get(Counted(), tmp_path / "a")
    get(Counted(), tmp_path / "b")
    cached("toy", tmp_path / "a", (1, 2, 2), "m", Counted(IMAGES[:, :, :2, :2]), silent)
    assert len(list(cache.rglob("images.npy"))) == 3


@pytest.mark.parametrize(
    ("name", "harm"),
    {
        "truncated images": ("images.npy", lambda data: data[:-1]),
        "no images": ("images.npy", lambda data: b""),
        "one flipped bit": ("images.npy", lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]),
        "truncated description": ("about.json", lambda data: data[: len(data) // 2]),
        "other description": ("about.json", lambda data: b"[]"),
        "other header": ("images.npy", lambda data: data.replace(b"|u1", b"|i1")),
    }.values(),
)
def test_a_damaged_cache_is_noticed_and_rebuilt(tmp_path, cache, name, harm):
    get(Counted(), tmp_path)
    file = files(cache, name)
    file.write_bytes(harm(file.read_bytes()))
    decode = Counted()
    np.testing.assert_array_equal(get(decode, tmp_path).images, IMAGES)
    assert decode.times == 1


@pytest.mark.parametrize("name", ["images.npy", "about.json"])
def test_a_missing_half_is_rebuilt(tmp_path, cache, name):
    get(Counted(), tmp_path)
    files(cache, name).unlink()
    np.testing.assert_array_equal(get(Counted(), tmp_path).images, IMAGES)


def test_an_error_while_decoding_leaves_no_cache(tmp_path, cache):
    def fails():
        yield IMAGES[0]
        raise UserError("image 1 is broken")

    with pytest.raises(UserError, match="image 1 is broken"):
        get(Counted(fails()), tmp_path)
    assert [file.name for file in cache.rglob("*") if file.is_file()] in ([], ["lock"])
    np.testing.assert_array_equal(get(Counted(), tmp_path).images, IMAGES)


def test_progress_reaches_the_total(tmp_path):
    calls = []
    get(Counted(), tmp_path, progress=lambda *call: calls.append(call))
    assert calls == [("Decoding toy", 256, 300), ("Decoding toy", 300, 300)]


def test_a_cache_folder_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("SNV_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(UserError, match="SNV_CACHE"):
        get(Counted(), tmp_path)


def test_the_mark_changes_with_size_time_and_names(tmp_path):
    file = tmp_path / "a"
    file.write_bytes(b"1")
    marks = {mark_of([file])}
    os.utime(file, ns=(1, 1))
    marks.add(mark_of([file]))
    file.write_bytes(b"12")
    os.utime(file, ns=(1, 1))
    marks.add(mark_of([file]))
    marks.add(mark_of([file.rename(tmp_path / "b")]))
    assert len(marks) == 4
    assert mark_of([tmp_path / "b"]) in marks


SLOW = """
import sys, time
from pathlib import Path
import numpy as np
from snv.data.cache import Decoding, cached

def images():
    for i in range(40):
        print(i, file=sys.stderr, flush=True)
        time.sleep(0.01)
        yield np.full((1, 4, 4), i, np.uint8)

def decode():
    print("decoded", flush=True)
    return Decoding(np.arange(40) % 2, ("a", "b"), images())

pool = cached("slow", Path(sys.argv[1]), (1, 4, 4), "m", decode, lambda *_: None)
assert (pool.images[:, 0, 0, 0] == np.arange(40)).all() and (pool.labels == np.arange(40) % 2).all()
print("right")
"""


def start(where: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SLOW, str(where)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_two_processes_that_start_at_once_both_get_the_right_images(tmp_path):
    both = [start(tmp_path), start(tmp_path)]
    answers = [process.communicate(timeout=60) for process in both]
    assert [process.returncode for process in both] == [0, 0], answers
    assert "".join(out for out, _ in answers).count("decoded") == 1
    assert all(out.endswith("right\n") for out, _ in answers)


def test_a_process_killed_while_decoding_leaves_no_wrong_cache(tmp_path, cache):
    process = start(tmp_path)
    while process.stderr.readline().strip() != "5":
        time.sleep(0.001)
    process.kill()
    process.communicate()
    assert not list(cache.rglob("images.npy"))
    again = start(tmp_path)
    out, err = again.communicate(timeout=60)
    assert out == "decoded\nright\n", err
    assert not list(cache.rglob(".*.tmp"))

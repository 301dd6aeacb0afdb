"""Pickled values are read, and nothing that a pickle can do happens."""

from __future__ import annotations

import pickle
import time

import numpy as np
import pytest

from hostile import Touch
from snv.data.plain_pickle import NotPlainError, read_plain

PLAIN = {b"data": [1, -2, 10**12, 2.5, None, True], "words": (b"x", "ü", ()), 3: {b"in": {}}}


@pytest.mark.parametrize("protocol", [3, 4])
def test_plain_values_are_what_pickle_makes_of_them(protocol):
    assert read_plain(pickle.dumps(PLAIN, protocol)) == PLAIN


@pytest.mark.parametrize("kind", ["u1", "<i8", ">i4"])
def test_arrays_of_integers_are_what_they_were(kind):
    array = np.arange(12).reshape(3, 4).astype(kind)
    found = read_plain(pickle.dumps({b"data": array}, 3))[b"data"]
    np.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype


@pytest.mark.parametrize("protocol", range(6))
def test_what_would_touch_a_file_touches_none(protocol, tmp_path):
    with pytest.raises(NotPlainError, match=r"it asks for|as no official file does"):
        read_plain(pickle.dumps({b"data": Touch(tmp_path / "touched")}, protocol))
    assert not (tmp_path / "touched").exists()
    pickle.loads(pickle.dumps(Touch(tmp_path / "touched"), protocol))
    assert (tmp_path / "touched").exists(), "the attack is one"


KEY_OF_TUPLES = b"\x80\x03})" + b"q\x00h\x00\x86" * 60 + b"K\x01s."  # hashing it takes 2**60 steps
HOSTILE = {
    "a key without end": KEY_OF_TUPLES,
    "an array of objects": pickle.dumps({b"data": np.array([{}], object)}, 3),
    "an array without data": b"\x80\x03}K\x01cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n)tRs.",
    "a name as value": b"\x80\x03cnumpy\nndarray\n.",
    "an instance": b"(i__builtin__\nobject\n.",
    "os.system": b"cos\nsystem\n(S'true'\ntR.",
    "nothing": b"",
    "no end": b"\x80\x03}",
    "an empty stack": b"\x80\x03\x86.",
}


def test_a_memo_of_32_gigabytes_takes_none():
    assert read_plain(b"\x80\x03]r\xff\xff\xff\x7f.") == []


def test_a_file_of_more_parts_than_any_data_set_has_is_refused(monkeypatch):
    monkeypatch.setattr("snv.data.plain_pickle.MOST", 1000)
    with pytest.raises(NotPlainError, match="more than 1,000 parts"):
        read_plain(b"\x80\x03" + b"]" * 2000 + b".")


@pytest.mark.parametrize("name", HOSTILE)
def test_what_would_hang_or_exhaust_a_computer_is_refused_at_once(name):
    start = time.monotonic()
    with pytest.raises(NotPlainError):
        read_plain(HOSTILE[name])
    assert time.monotonic() - start < 60

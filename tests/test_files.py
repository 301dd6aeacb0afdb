"""A file is the old version or the new one, never half of it; a state comes back as it was."""

from __future__ import annotations

import math
import os
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import pytest
import safetensors.torch
import torch

from snv.errors import UserError
from snv.files import (
    bytes_in,
    cloned,
    load_state,
    plain_toml,
    read_bytes,
    read_json,
    save_state,
    sweep,
    write_atomic,
    write_json,
)


def test_reading_a_small_file_takes_no_more_memory_than_it_has(tmp_path):
    (tmp_path / "small").write_bytes(b"few")
    tracemalloc.start()
    try:
        assert read_bytes(tmp_path / "small") == b"few"
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_a_file_that_grows_while_it_is_read_is_read_whole_or_refused(tmp_path, monkeypatch):
    (tmp_path / "grown").write_bytes(b"0123456789")
    monkeypatch.setattr(os, "fstat", lambda _: SimpleNamespace(st_size=4))
    assert read_bytes(tmp_path / "grown") == b"0123456789"
    with pytest.raises(UserError, match="more than 9 bytes"):
        read_bytes(tmp_path / "grown", 9)


def test_a_writer_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail(temporary):
        temporary.write_text("half of the n")
        raise OSError

    with pytest.raises(OSError):
        write_atomic(path, fail)
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]
    assert path.read_text() == "old"


def test_what_a_killed_writer_left_is_swept_away(tmp_path):
    for name in (".a.txt.x1.tmp", ".tmpx2", "a.txt"):
        (tmp_path / name).touch()
    sweep(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]


def test_JSON_holds_no_number_that_is_not_one_and_damage_is_named(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "a.json", {"x": math.nan})
    write_json(tmp_path / "a.json", {"x": [1, None, "ö"]})
    assert read_json(tmp_path / "a.json") == {"x": [1, None, "ö"]}
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(UserError, match=r"a\.json is not valid JSON .*restore it or remove it"):
        read_json(tmp_path / "a.json")


STATE = {"a": torch.arange(3), "b": [torch.ones(2, 2), {"c": None, "d": "text", "e": 1.5, "f": True}], 7: {"$g": 2}}


def test_a_state_comes_back_from_its_file(tmp_path):
    save_state(tmp_path / "a.safetensors", STATE)
    state = load_state(tmp_path / "a.safetensors")
    assert torch.equal(state["a"], STATE["a"])
    assert torch.equal(state["b"][0], STATE["b"][0])
    assert (state["b"][1], state[7]) == (STATE["b"][1], STATE[7])


def test_a_damaged_state_is_named(tmp_path):
    (tmp_path / "a.safetensors").write_bytes(b"x" * 100)
    with pytest.raises(UserError, match=r"a\.safetensors is damaged .*or remove it"):
        load_state(tmp_path / "a.safetensors")


def test_a_state_of_anything_else_is_refused_by_its_place(tmp_path):
    with pytest.raises(TypeError, match="found set at '/b/0'"):
        save_state(tmp_path / "a.safetensors", {"b": [{1}]})


def test_a_clone_does_not_change_with_the_original():
    state = {"a": torch.zeros(2), "b": [torch.zeros(3)]}
    clone = cloned(state)
    state["a"] += 1
    state["b"].append(torch.zeros(1))
    assert not clone["a"].any()
    assert len(clone["b"]) == 1


def test_bytes_are_those_of_all_tensors():
    assert bytes_in(STATE) == 3 * 8 + 4 * 4


def test_json_and_toml_that_are_too_deep_too_large_or_no_files_are_refused(tmp_path, monkeypatch):
    deep = "[" * 100_000 + "]" * 100_000
    for name, text in (("deep", deep), ("nested", "[" * 60 + "]" * 60), ("number", "9" * 10_000), ("bytes", "\udcff")):
        (tmp_path / name).write_text(text, errors="surrogateescape")
        with pytest.raises(UserError, match=f"{name} is not valid JSON"):
            read_json(tmp_path / name)
        (tmp_path / name).write_text(f"x = {text}", errors="surrogateescape")
        with pytest.raises(UserError, match=f"{name} is not a readable TOML file"):
            plain_toml(tmp_path / name)
    os.mkfifo(tmp_path / "pipe")
    for read in (read_json, plain_toml):
        with pytest.raises(UserError, match="pipe is not an ordinary file"):
            read(tmp_path / "pipe")
        with pytest.raises(UserError, match="/dev/zero is not an ordinary file"):
            read(Path("/dev/zero"))
    monkeypatch.setattr("snv.files.LARGEST_TEXT", 10)
    with pytest.raises(UserError, match="has more than 10 bytes"):
        read_bytes(tmp_path / "deep", 10)


def test_a_state_with_a_tree_as_deep_as_a_file_allows_is_damaged(tmp_path):
    tree = "[" * 100_000 + "]" * 100_000
    safetensors.torch.save_file({}, tmp_path / "x.safetensors", metadata={"state": tree})
    with pytest.raises(UserError, match="is damaged or is no state saved by snv"):
        load_state(tmp_path / "x.safetensors")

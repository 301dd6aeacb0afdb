"""Runs are found where they are."""

from __future__ import annotations

import pytest

from snv.errors import UserError
from snv.files import write_json
from snv.runs import RunDirectory, find_runs


def test_runs_are_found_in_a_folder_and_below_it_in_order(tmp_path):
    for name in ("b", "a/deep", "c"):
        write_json(tmp_path / name / "config.json", {})
    for name in ("b", "a/deep"):
        write_json(tmp_path / name / "record.json", {})
    assert find_runs(tmp_path) == [tmp_path / "a/deep", tmp_path / "b"]
    assert find_runs(tmp_path / "b") == [tmp_path / "b"]


def test_a_folder_without_a_run_is_refused_with_advice(tmp_path):
    with pytest.raises(UserError, match=r"There is no run in .*Give the --out of a `snv run`"):
        find_runs(tmp_path)


def test_a_lock_that_is_a_link_is_neither_followed_nor_locked(tmp_path):
    """Some versions of the library that locks empty the file they open."""
    (tmp_path / "precious").write_text("all I have")
    write_json(tmp_path / "run" / "config.json", {})
    (tmp_path / "run" / "lock").symlink_to(tmp_path / "precious")
    directory = RunDirectory(tmp_path / "run")
    assert not directory.in_use()
    with pytest.raises(UserError, match="lock is a link or no file"), directory.locked():
        pass
    assert (tmp_path / "precious").read_text() == "all I have"

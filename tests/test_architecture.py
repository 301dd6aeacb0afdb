"""Rooms with doors: data flows one way, and a room is entered by its door."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

import shape

PACKAGES = [name for room in shape.HOUSE for name in room.names if (shape.SOURCE / name).is_dir()]


def test_every_file_stands_in_a_room():
    assert {shape.room_of(path) for path in shape.files()} - {"__init__", "__main__"} == set(shape.LEVEL)


def test_a_file_imports_only_from_its_own_level_or_lower():
    assert shape.upward() == []


def test_another_room_is_entered_by_its_door_and_nothing_private_leaves_it():
    assert shape.past_doors() == []


def test_no_two_files_import_each_other_however_far_around():
    assert shape.cycles() == []


@pytest.mark.parametrize("name", [name for name in PACKAGES if name != "cli"])
def test_every_room_has_a_door_that_names_what_it_gives(name):
    door = importlib.import_module(f"snv.{name}")
    assert door.__doc__ and door.__all__
    assert all(hasattr(door, public) for public in door.__all__)


def test_the_theory_knows_no_network():
    for path in (shape.SOURCE / "shapley").glob("*.py"):
        assert not re.search(r"\btorch\.nn\b|from torch import .*\bnn\b", path.read_text(encoding="utf-8")), path


def test_the_readme_shows_the_rooms_as_they_are():
    text = (shape.ROOT / "README.md").read_text(encoding="utf-8")
    assert shape.START in text
    assert shape.with_tree(text) == text, "run tools/shape.py --readme"


def test_the_readme_shows_the_methods_as_their_cards_have_them():
    text = (shape.ROOT / "README.md").read_text(encoding="utf-8")
    assert shape.TABLE_START in text
    assert shape.with_methods(text) == text, "run tools/shape.py --readme"


def test_the_library_is_quiet_and_only_the_command_line_talks():
    for path in shape.files():
        if shape.room_of(path) != "cli":
            assert not re.search(r"\bprint\(", path.read_text(encoding="utf-8")), path


def test_importing_the_library_does_not_load_torch():
    code = "import sys, snv; raise SystemExit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_no_file_of_the_product_unpickles_anything_but_through_the_restricted_reader():
    for path in shape.files():
        text = path.read_text(encoding="utf-8")
        assert "torch.load(" not in text, path
        assert "pickle.load" not in text, path

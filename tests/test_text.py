"""Names are shown in one line, and nothing in them does anything."""

from __future__ import annotations

import pytest

from hostile import NAMES
from snv.text import printable, printable_lines


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_shown_in_one_line_without_signs_that_act(name):
    assert printable(name).isprintable()


def test_ordinary_names_stay_what_they_are():
    for name in ("Größe 3×3", "猫", "family 👩‍👩‍👧", "a\\b", "x" * 9):
        assert printable(name) == printable_lines(name) == name


def test_our_own_lines_keep_their_ends_and_lose_what_acts():
    assert printable_lines("a\tb\nc\x1b[2J\x9b") == "a\tb\nc\\x1b[2J\\x9b"
    assert printable("a\nb\udcff\u202e") == "a\\nb\\udcff\\u202e"

"""Words from files as they may be shown: nothing in them moves a cursor, starts a line or turns the reading round."""

from __future__ import annotations

import re

UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, ends of lines, changes of direction, and bytes of file names that are no text."""
LINES = re.compile(UNSEEN.pattern.replace("\x00-\x1f", "\x00-\x08\x0b-\x1f").replace("\ud800-\udfff", ""))
"""The same without tabs and ends of lines, which our own sentences have, and without bytes of file names."""


def printable(text: str) -> str:
    """A name in one line, with ``\\x1b`` and the like where it holds what cannot be seen."""
    return UNSEEN.sub(_spelt, text)


def printable_lines(text: str) -> str:
    """Several lines that terminals only print."""
    return LINES.sub(_spelt, text)


def _spelt(found: re.Match[str]) -> str:
    return found.group().encode("unicode_escape").decode("ascii")

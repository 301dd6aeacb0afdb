"""Files as somebody would make them who means harm."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class Touch:
    """What makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


NAMES = (
    "<script>alert(1)</script>",
    "[red]stop[/red]",
    "[/]",
    "\x1b]0;owned\x07\x1b[2J",
    "../../x",
    "=cmd|' /C calc'!A0",
    "a\nok      all tasks",
    "nul\x00byte",
    "\u202etxt.exe",
    "$\\frac{$",
    "%0a\\input{/etc/passwd}",
    "x" * 5000,
)
"""Of classes, tasks, runs and files."""

"""Who is told how far a run is."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, float, float], None]
"""Told what is being done, how much of it is done, and how much there is. It may have a method ``note``: that is given
a function to call whenever there is room for a remark, such as the loss so far."""

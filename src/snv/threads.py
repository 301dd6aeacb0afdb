"""How long PyTorch's threads spin while they wait for each other: the default of our commands.

GNU OpenMP, which PyTorch's builds for Linux bring along, lets a waiting thread spin for some 300,000 rounds before it
sleeps. Beside other busy processes it holds the very core that the thread it waits for needs, and training comes to a
halt. A short spin keeps most of the speed of an idle machine and nearly all of what a busy one can give; it changes no
result. The variable is read once, when PyTorch is loaded, so this file imports nothing but the standard library.
"""

from __future__ import annotations

import os
import sys

DEFAULT = ("GOMP_SPINCOUNT", "1000")
"""Chosen by `benchmarks/busy.py --all`."""

DECIDING = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "KMP_BLOCKTIME")
"""Whoever has set one of these has decided how threads wait."""


def waiting_settings() -> dict[str, str]:
    """The variables in force that decide how threads wait."""
    return {name: os.environ[name] for name in DECIDING if name in os.environ}


def set_waiting_default() -> None:
    """Set the default, for this process and those it starts; not if the user has decided or PyTorch is loaded."""
    name, value = DEFAULT
    if not waiting_settings() and "torch" not in sys.modules:
        os.environ[name] = value

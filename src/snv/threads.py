"""How long PyTorch's threads spin while they wait for each other: the default of our commands.

GNU OpenMP, which PyTorch's builds for Linux bring along, lets a waiting thread spin for some 300,000 rounds before it
sleeps. Beside other busy processes it holds the very core that the thread it waits for needs, and training comes to a
halt. Where the cores are taken when a command starts, its threads spin briefly; where they are free, a tenth as long as
GNU's own, which costs little now and helps if the machine gets busy later. No result changes. The variable is read
once, when PyTorch is loaded, so this file imports nothing but the standard library.
"""

from __future__ import annotations

import os
import sys

VARIABLE = "GOMP_SPINCOUNT"
ROUNDS = {"idle": "30000", "busy": "1000"}
"""Chosen by `benchmarks/busy.py --all`."""

DECIDING = (VARIABLE, "OMP_WAIT_POLICY", "KMP_BLOCKTIME")
"""Whoever has set one of these has decided how threads wait."""


def machine_load() -> str:
    """``busy`` if other processes have used half of the cores or more in the last minute, else ``idle``."""
    return "busy" if os.getloadavg()[0] >= (os.cpu_count() or 1) / 2 else "idle"


def waiting_default() -> dict[str, str]:
    """The variable that suits the machine as it is now."""
    return {VARIABLE: ROUNDS[machine_load()]}


def waiting_settings() -> dict[str, str]:
    """The variables in force that decide how threads wait."""
    return {name: os.environ[name] for name in DECIDING if name in os.environ}


def set_waiting_default() -> None:
    """Set the default, for this process and those it starts; not if the user has decided or PyTorch is loaded."""
    if not waiting_settings() and "torch" not in sys.modules:
        os.environ |= waiting_default()

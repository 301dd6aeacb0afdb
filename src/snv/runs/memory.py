"""The most memory a run has held: of its GPU if it has one, else of the process, from the run's start on."""

from __future__ import annotations

import re
import resource
import sys
from pathlib import Path
from typing import Any

import torch

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
SLACK = 2**24
"""By how much the kernel's two counts of resident bytes may differ: every thread books its pages in bundles."""


class PeakMemory:
    """Starts anew when it is made, so that two runs of one process are told apart.

    Where the system cannot forget an earlier peak, ``of`` is "process": then the number may be that of earlier work.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.of = "run" if _forget_peak(device) else "process"
        self._earlier = 0  # of processes that worked on this run before

    def measured(self) -> dict[str, Any]:
        return {"peak_bytes": max(self._earlier, peak_bytes(self.device)), "peak_of": self.of}

    def load_measured(self, state: dict[str, Any]) -> None:
        self._earlier = state["peak_bytes"]
        self.of = "process" if state.get("peak_of", "process") == "process" else self.of


def peak_bytes(device: torch.device) -> int:
    """The most memory held since the last call of `_forget_peak`, or since the process began."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if highest := _in_status("VmHWM"):
        return highest
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _in_status(name: str) -> int:
    """Bytes of a line of Linux's own account of this process; 0 on other systems."""
    line = re.search(rf"{name}:\s*(\d+) kB", STATUS.read_text()) if STATUS.exists() else None
    return int(line[1]) * 1024 if line else 0


def _forget_peak(device: torch.device) -> bool:
    """Whether the peak counts from now on."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return True
    try:
        CLEAR.write_text("5")  # Linux: the highest resident size is what it is now
    except OSError:
        return False
    return _in_status("VmHWM") <= _in_status("VmRSS") + SLACK

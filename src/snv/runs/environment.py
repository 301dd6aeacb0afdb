"""What a run ran on."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

import snv
from snv.data import Source


def describe() -> dict[str, Any]:
    """Versions, commit and hardware, as a run records them."""
    packages = ("torch", "numpy", "safetensors", "pillow")
    return {
        "snv": snv.__version__,
        "commit": _commit(),
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in packages},
        "platform": platform.platform(),
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "memory_gib": _memory_gib(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
    }


def data_fingerprint(source: Source) -> str:
    """Changes when an image is added to, removed from or moved within the data."""
    digest = hashlib.blake2b(source.labels.tobytes(), digest_size=8)
    digest.update(repr((source.class_names, source.shape)).encode())
    return digest.hexdigest()


def _commit() -> str | None:
    """The git commit of this package's own source, with a mark if it was changed since; None outside a clone."""
    where = Path(snv.__file__).parent
    try:
        tracked = ["git", "-C", str(where), "ls-files", "--error-unmatch", "__init__.py"]
        subprocess.run(tracked, capture_output=True, check=True, timeout=5)
        command = ["git", "-C", str(where), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=5).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (ValueError, OSError, AttributeError):
        return None

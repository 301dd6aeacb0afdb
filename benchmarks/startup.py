"""How long a command takes to start: help, one picture answered, and what importing PyTorch alone takes.

    python benchmarks/startup.py --model pets.snv --picture a.jpg [--turns 5]

Every start is a fresh process; the starts take turns, and the median counts. Without a model and a picture, a small
model is made first. The last line is JSON: seconds until the process has ended, processor seconds, which are less of a
matter of what else the machine does, and ``predict_over_torch``, those of `snv predict` over those of ``import torch``.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def started(command: list[str]) -> tuple[float, float]:
    """Seconds and processor seconds of one process."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    took, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measured(commands: dict[str, list[str]], turns: int) -> dict[str, dict[str, float]]:
    """The median start of each command; the first turn, which reads everything from the disk, does not count."""
    starts: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for turn in range(turns + 1):
        for name, command in commands.items():
            start = started(command)
            if turn > 0:
                starts[name].append(start)
    return {
        name: {"seconds": statistics.median(s for s, _ in all_), "cpu_seconds": statistics.median(c for _, c in all_)}
        for name, all_ in starts.items()
    }


def made(folder: Path) -> tuple[Path, Path]:
    """A small model and a picture."""
    import numpy as np
    from PIL import Image

    from snv import Model

    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (40, 64, 64, 3), dtype=np.uint8), ["left", "right"] * 20
    Model.create(folder / "small.snv").learn((images, labels), epochs=1)
    Image.fromarray(images[0]).save(folder / "a.png")
    return folder / "small.snv", folder / "a.png"


def commands(model: Path, picture: Path) -> dict[str, list[str]]:
    snv = [sys.executable, "-m", "snv.cli.main"]
    return {
        "help": [*snv, "--help"],
        "import snv": [sys.executable, "-c", "import snv"],
        "import torch": [sys.executable, "-c", "import torch"],
        "predict": [*snv, "predict", str(picture), "--model", str(model)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        pair = (options.model, options.picture) if options.model and options.picture else made(Path(folder))
        starts = measured(commands(*pair), options.turns)
    for name, start in starts.items():
        print(f"{name:14} {start['seconds']:6.2f} s, {start['cpu_seconds']:6.2f} s of a processor")
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    ratio = starts["predict"]["cpu_seconds"] / starts["import torch"]["cpu_seconds"]
    print(json.dumps(starts | {"predict_over_torch": ratio}))


if __name__ == "__main__":
    main()

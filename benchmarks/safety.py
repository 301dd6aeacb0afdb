"""What it costs that nothing is lost and nothing is silently wrong, as a share of a run's time.

    python benchmarks/safety.py [--epochs 20] [--width 20] [--seconds 30]

A run of SNV on pictures of noise (32 × 32, 2 tasks, ResNet-18) with every safeguard timed where it is called:
checkpoints with their checksums and their way to the disk, sealed records and logs, fingerprints of data and cache,
and signs of life, which a process gives once a second. ``--seconds`` is `checkpoint_seconds`, the work a kill may
cost. The last line is JSON: ``share`` (all of it over the run's time) and ``at_most``, which it may not exceed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing import Pipe
from pathlib import Path
from unittest import mock

import numpy as np
from PIL import Image

import snv.data.cache
from snv.config import load_config
from snv.runs import RunDirectory
from snv.runs.run import _Run, run
from snv.study import local

AT_MOST = 0.02
PREPARE = importlib.import_module("snv.runs.prepare")  # behind a function of the same name
SAFEGUARDS = {
    "checkpoints": [(RunDirectory, "save_now"), (RunDirectory, "save_task")],
    "looking for a checkpoint": [(RunDirectory, "newest")],
    "records and logs": [(_Run, "_export"), (_Run, "_export_neurons")],
    "fingerprints of data": [(PREPARE, "_check_data"), (PREPARE, "_fingerprints")],
    "checksum of the cache": [(snv.data.cache, "checksum_of"), (snv.data.cache.Pool, "check")],
}


class Timer:
    """Seconds within some functions; one called by another counts for the outer one."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(SAFEGUARDS, 0.0)
        self.calls = dict.fromkeys(SAFEGUARDS, 0)
        self._inside = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        with ExitStack() as undo:
            for kind, places in SAFEGUARDS.items():
                for owner, name in places:
                    undo.enter_context(mock.patch.object(owner, name, self._timed(kind, getattr(owner, name))))
            yield

    def _timed(self, kind: str, function: Callable[..., object]) -> Callable[..., object]:
        def timed(*arguments: object, **options: object) -> object:
            if self._inside:
                return function(*arguments, **options)
            self._inside, start = True, time.perf_counter()
            try:
                return function(*arguments, **options)
            finally:
                self._inside = False
                self.seconds[kind] += time.perf_counter() - start
                self.calls[kind] += 1

        return timed


def draw(folder: Path, classes: int = 4, each: int = 200) -> Path:
    """Class folders of noise."""
    rng = np.random.default_rng(0)
    for c in range(classes):
        (folder / str(c)).mkdir(parents=True)
        for i in range(each):
            Image.fromarray(rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(folder / str(c) / f"{i}.png")
    return folder


def seconds_of_a_sign_of_life(n: int = 2000) -> float:
    """To send it and to read it."""
    ours, theirs = Pipe()
    with mock.patch.object(local, "BEAT", 3600.0), local._signs_of_life(theirs) as tell:
        start = time.perf_counter()
        for _ in range(n):
            tell(None)
            ours.recv()
        return (time.perf_counter() - start) / n


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--width", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=30.0, help="checkpoint_seconds")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        os.environ["SNV_CACHE"] = str(folder / "cache")
        settings = [f"data.name=folder:{draw(folder / 'pictures')}", "data.size=32", "data.tasks=2", "method=snv"]
        settings += ["network.name=resnet18", f"network.width={options.width}", "threads=1", "train.patience=0"]
        settings += [f"checkpoint_seconds={options.seconds}"]
        run(load_config(None, [*settings, "train.epochs=1"]), folder / "warm")
        timer = Timer()
        with timer.watching():
            start = time.perf_counter()
            run(load_config(None, [*settings, f"train.epochs={options.epochs}"]), folder / "run")
            whole = time.perf_counter() - start
    timer.seconds["signs of life"] = seconds_of_a_sign_of_life() * whole / local.BEAT
    timer.calls["signs of life"] = int(whole / local.BEAT)
    for kind, seconds in timer.seconds.items():
        print(f"{kind:26} {timer.calls[kind]:5} times {1000 * seconds:10.1f} ms {100 * seconds / whole:8.4f} %")
    share = sum(timer.seconds.values()) / whole
    shares = {kind: seconds / whole for kind, seconds in timer.seconds.items()}
    print(json.dumps({"share": share, "at_most": AT_MOST, "shares": shares, "run_seconds": whole, **vars(options)}))
    if share > AT_MOST:
        raise SystemExit(f"the safeguards take {100 * share:.2f} % of a run, more than {100 * AT_MOST:.0f} %")


if __name__ == "__main__":
    main()

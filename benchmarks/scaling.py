"""What more workers are worth: a sweep by one and by two processes of this machine, and by tasks of a Ray cluster.

    python benchmarks/scaling.py [--runs 8] [--rounds 3] [--only sweep]

Every kind of workers does the same runs in turn, round after round, in one process; workers have loaded PyTorch before
the clock starts. Ratios are medians over rounds. The last line is JSON: per measure its ratios and its seconds.
`sweep`: runs of digits; ``two over one`` (0.5 is perfect), and ``ray over local`` with as many workers.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from snv.study import LocalWorkers, RayWorkers, Study, Workers, bench, load_study

STREAM = "[data]\nname = 'digits'\n[network]\nname = 'mlp'\nhidden = [64]\n[train]\nepochs = 20\npatience = 0\n"
STUDY = "[groups.digits]\nstreams = ['stream.toml']\nsettings.threads = 1\n"

Seconds = dict[str, float]
Found = dict[str, dict[str, float]]


def study_of(folder: Path, seeds: Sequence[int]) -> Study:
    """So many runs that differ in the seed."""
    (folder / "stream.toml").write_text(STREAM)
    (folder / "study.toml").write_text(STUDY + f"seeds = {list(seeds)}\n")
    return load_study(folder / "study.toml")


class AtMost:
    """Some of the workers there are."""

    def __init__(self, workers: Workers, n: int) -> None:
        self._workers, self._n, self._full = workers, n, workers.room()
        self.submit, self.news, self.stop = workers.submit, workers.news, workers.stop

    def room(self) -> int:
        return self._workers.room() - self._full + self._n


def seconds_of(workers: Workers, n_runs: int) -> float:
    """For a sweep."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        begun = time.perf_counter()
        done = bench(study_of(folder, range(n_runs)), folder / "out", runs=folder / "runs", workers=workers)
        seconds = time.perf_counter() - begun
        assert all(standing.state == "done" for standing in done)
    return seconds


def sweep(options: argparse.Namespace) -> Found:
    """One and two workers, local and on Ray."""
    with ExitStack() as ending:
        kinds = {
            "local": ending.enter_context(LocalWorkers(2)),
            "ray": ending.enter_context(RayWorkers("local", jobs=2)),
        }
        for workers in kinds.values():
            seconds_of(workers, 2)  # each process has loaded what it needs
        few = {f"{kind} {n}": AtMost(workers, n) for n in (1, 2) for kind, workers in kinds.items()}
        rounds = [{name: seconds_of(some, options.runs) for name, some in few.items()} for _ in range(options.rounds)]
    pairs = {
        "two over one, local": ("local 2", "local 1"),
        "two over one, ray": ("ray 2", "ray 1"),
        "ray over local, one worker": ("ray 1", "local 1"),
        "ray over local, two workers": ("ray 2", "local 2"),
    }
    return {"ratios": ratios(rounds, pairs), "seconds": medians(rounds)}


def ratios(rounds: Sequence[Seconds], pairs: dict[str, tuple[str, str]]) -> Seconds:
    """Medians of what was measured in the same round."""
    return {name: statistics.median(found[a] / found[b] for found in rounds) for name, (a, b) in pairs.items()}


def medians(rounds: Sequence[Seconds]) -> Seconds:
    return {name: statistics.median(found[name] for found in rounds) for name in rounds[0]}


MEASURES: dict[str, Callable[[argparse.Namespace], Found]] = {"sweep": sweep}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=MEASURES, action="append")
    options = parser.parse_args()
    found = {name: MEASURES[name](options) for name in options.only or MEASURES}
    for name, measured in found.items():
        for what, ratio in measured["ratios"].items():
            print(f"{name}: {what}: {ratio:.2f}")
    print(json.dumps(found))


if __name__ == "__main__":
    main()

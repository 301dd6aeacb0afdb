"""Files that were spoilt at random are read or refused in a sentence: no other error, no hang, no flood of memory.

python tests/fuzz/fuzz.py --seconds 60 [NAME …]       each reader for a minute; stops at the first that fails
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1])]

from fuzz.parsers import PARSERS, Parser, quiet
from snv.errors import UserError

LONGEST = 20  # seconds for a file
MEMORY = 3 * 2**30  # bytes of addresses beyond what is in use when a reader begins


class Failed(Exception):  # noqa: N818 - what it says is which file to look at
    """A file that was neither read nor refused."""


def fuzz(parser: Parser, folder: Path, seconds: float | None = None, start: int = 0) -> Counter[str]:
    """Files one after the other, as many as the tests take or for so long; how many were read and how many refused."""
    seeds, path, found = parser.seeds(), folder / parser.name, Counter[str]()
    with quiet():
        for seed in seeds:  # what is valid is read; the first time also loads what reads it
            path.write_bytes(seed)
            parser.read(path)
    until = time.monotonic() + (seconds or 0)
    with quiet(), _limited():
        for number in itertools.count(start):
            if (number - start >= parser.cases) if seconds is None else (time.monotonic() >= until):
                return found
            rng = random.Random(number)
            path.write_bytes(parser.spoil(rng.choice(seeds), rng))
            found[_outcome(parser, path, number)] += 1
    return found


def _outcome(parser: Parser, path: Path, number: int) -> str:
    try:
        with _alarm():
            parser.read(path)
        return "read"
    except UserError as error:
        if not str(error).strip().endswith((".", "?", ")")) and len(str(error).split()) < 4:
            raise Failed(f"{_kept(path, number)}: no sentence, but {error}") from error
        return "refused"
    except Exception as error:
        raise Failed(f"{_kept(path, number)}: {type(error).__name__}: {str(error)[:300]}") from error


def _kept(path: Path, number: int) -> Path:
    """A copy that outlives the run."""
    folder = Path(tempfile.gettempdir()) / "snv-fuzz"
    folder.mkdir(exist_ok=True)
    return Path(shutil.copyfile(path, folder / f"{number}-{path.name}"))


@contextmanager
def _alarm() -> Iterator[None]:
    """An error inside whatever takes too long."""

    def ring(_signum: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"it takes more than {LONGEST} seconds")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(LONGEST)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _limited() -> Iterator[None]:
    """Not much more memory than is in use now."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        yield
        return
    limits = resource.getrlimit(resource.RLIMIT_AS)
    now = int(statm.read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def main() -> int:
    parse = argparse.ArgumentParser(description=__doc__)
    parse.add_argument("names", nargs="*", help=", ".join(PARSERS))
    parse.add_argument("--seconds", type=float, default=60, help="for each reader")
    parse.add_argument("--start", type=int, default=10**6, help="number of the first file; the same one, the same file")
    asked = parse.parse_args()
    wrong = 0
    for name in asked.names or PARSERS:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["SNV_CACHE"] = str(Path(folder) / "cache")
            begun = time.monotonic()
            try:
                told = dict(fuzz(PARSERS[name], Path(folder), asked.seconds, asked.start))
            except Failed as error:
                told, wrong = {"failed": str(error)}, wrong + 1
            print(json.dumps({"reader": name, "seconds": round(time.monotonic() - begun, 1), **told}), flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())

"""The tables of README and docs, made anew from the records in results/.

    python tools/tables.py             writes them
    python tools/tables.py --check     says which files are not up to date

A table stands between the command that makes it, ``<!-- snv table NAME RUNS -->``, and ``<!-- end of table -->``.
Records count once git knows them, so that one which an experiment has just written changes nothing until it is added.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/results.md", "docs/tables.md")
MARK = re.compile(r"(<!-- snv table (.+?) -->\n).*?(<!-- end of table -->)", flags=re.DOTALL)


def refreshed(text: str, folder: Path) -> str:
    """A page, which stands in ``folder``, with its tables as the records have them."""
    return MARK.sub(lambda found: found[1] + made(found[2], folder) + found[3], text)


def made(command: str, folder: Path) -> str:
    """The table that a command after ``snv table`` makes."""
    from snv.report import FORMATS, table
    from snv.runs import read_results

    parser = argparse.ArgumentParser(prog="snv table", exit_on_error=False)
    parser.add_argument("name")
    parser.add_argument("runs", nargs="*")
    parser.add_argument("--against")
    asked = parser.parse_args(shlex.split(command))
    results = read_results(path for run in asked.runs for path in records(run))
    return FORMATS["md"](table(asked.name, results, asked.against), folder)


def records(place: str) -> list[Path]:
    """The records below a place that git knows; all of them where there is no git."""
    try:
        known = subprocess.run(
            ["git", "ls-files", "-z", place], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.split("\0")
    except (OSError, subprocess.CalledProcessError):
        known = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / place).glob("**/*.json"))]
    return [ROOT / name for name in known if name.endswith(".json") and (ROOT / name).exists()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if something is out of date")
    options = parser.parse_args()
    stale = []
    for name in PAGES:
        page = ROOT / name
        text = page.read_text(encoding="utf-8")
        if (now := refreshed(text, page.parent)) != text:
            stale.append(name)
            if not options.check:
                page.write_text(now, encoding="utf-8")
    print(f"{'out of date' if options.check else 'written'}: {', '.join(stale)}" if stale else "all up to date")
    sys.exit(bool(stale) and options.check)


if __name__ == "__main__":
    main()

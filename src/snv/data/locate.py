"""Where files are looked for: the folder you name, then $SNV_DATA, then the cache folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TypeAlias

from snv.data.download import DownloadError, Remote, download
from snv.errors import UserError

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with what is being done, how much is done, and how much there is (0 if nobody knows)."""


def silent(_label: str, _done: int, _total: int) -> None:
    """The progress report of those who want none."""


@dataclass(frozen=True)
class Options:
    """How a source is to be read; each source uses what applies to it."""

    data_dir: Path | None = None
    size: int | None = None
    workers: int = 0
    progress: Progress = silent
    download: bool = True

    def __post_init__(self) -> None:
        if self.size is not None and not 1 <= self.size <= 4096:
            raise UserError(f"size is the side of an image in pixels, 1 to 4096; got {self.size}. Try 32 or 64.")
        if self.workers < 0:
            raise UserError(f"workers is a number of processes, 0 or more; got {self.workers}.")

    def fixed_size(self, name: str, size: int) -> None:
        """Refuse a size that ``name``, whose images come in one size only, cannot give."""
        if self.size not in (None, size):
            raise UserError(f"The images of {name} are {size} pixels wide; got size = {self.size}. Leave size out.")


def cache_dir() -> Path:
    """$SNV_CACHE, or snv in the user's own cache folder."""
    if "SNV_CACHE" in os.environ:
        return Path(os.environ["SNV_CACHE"]).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "snv"


def places(data_dir: Path | None) -> list[Path]:
    """The folders to search, first one first; downloads go to the first."""
    named = [data_dir, os.environ.get("SNV_DATA")]
    return [Path(place).expanduser() for place in named if place] + [cache_dir()]


def find(patterns: Sequence[str], data_dir: Path | None) -> Path | None:
    """The first match of the first pattern, place by place; a place may also be named like the pattern's start."""
    for place in places(data_dir):
        for pattern in patterns:
            for found in _matches(place, pattern):
                return found
    return None


def _matches(place: Path, pattern: str) -> Iterator[Path]:
    first, _, rest = pattern.partition("/")
    if fnmatch(place.name.lower(), first.lower()) and (own := place / rest if rest else place).exists():
        yield own
    if place.is_dir():
        yield from sorted(place.glob(pattern))


def obtain(title: str, patterns: Sequence[str], remote: Remote, options: Options, folder: str = "") -> Path:
    """The file where it is found, or after downloading it; otherwise an error that says which file to put where."""
    if path := find(patterns, options.data_dir):
        return path
    target = places(options.data_dir)[0] / folder / remote.name
    advice = f"Put {remote.name} into {target.parent}, or pass --data-dir."
    if not options.download:
        raise UserError(f"{title} was not found, and downloading is switched off. {advice}")
    try:
        download(remote, target, options.progress)
    except DownloadError as error:
        raise UserError(f"{title} was not found and could not be downloaded ({error}). {advice}") from None
    return target


def damaged(path: Path | str, why: object) -> UserError:
    """The answer to a file of a public dataset that cannot be read."""
    reason = (str(why) or type(why).__name__).splitlines()[0].rstrip(".:")
    return UserError(f"{path} is damaged or incomplete ({reason}). Remove it and download it again.")

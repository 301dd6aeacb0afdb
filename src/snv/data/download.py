"""Downloads that resume where they stopped and are believed only when their checksum is right."""

from __future__ import annotations

import hashlib
import http.client
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from snv.errors import UserError

TIMEOUT = 10.0  # seconds without a byte
BLOCK = 1 << 18


class DownloadError(Exception):
    """The file could not be fetched; its text is the reason."""


@dataclass(frozen=True)
class Remote:
    """A public file and the MD5 checksum its publishers give for it."""

    url: str
    md5: str

    @property
    def name(self) -> str:
        return self.url.rsplit("/", 1)[-1]


def download(remote: Remote, target: Path, progress: Callable[[str, int, int], None]) -> None:
    """Fetch ``remote`` into ``target``; a cut connection is resumed as long as every attempt brings something new."""
    part = target.with_name(target.name + ".part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(target.with_name(target.name + ".lock")):
            if target.exists():  # another process was faster
                return
            while not _attempt(remote, part, progress):
                pass
            _check(remote, part)
            part.replace(target)
    except urllib.error.HTTPError as error:
        error.close()
        raise DownloadError(f"the server answered {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        raise DownloadError(str(error.reason)) from None
    except (OSError, http.client.HTTPException) as error:
        raise DownloadError(str(error) or type(error).__name__) from None


def _attempt(remote: Remote, part: Path, progress: Callable[[str, int, int], None]) -> bool:
    """Append what one connection brings to ``part``; True if the file is whole, an error if nothing came."""
    have = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "snv"} | ({"Range": f"bytes={have}-"} if have else {})
    try:
        answer = urllib.request.urlopen(urllib.request.Request(remote.url, headers=headers), timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code != 416 or not have:
            raise
        error.close()  # nothing lies beyond what we have: it is whole, or not the file we think it is
        return True
    with answer:
        resumed = answer.status == 206 and answer.headers.get("Content-Range", "").startswith(f"bytes {have}-")
        start = have if resumed else 0
        length = answer.headers.get("Content-Length")
        total = start + int(length) if length else 0
        done = _pour(answer, part, start, total, lambda n: progress(f"Downloading {remote.name}", n, total))
    if total and done < total:
        if done <= have:
            raise DownloadError(f"the connection ended after {done} of {total} bytes")
        return False
    return True


def _pour(answer: http.client.HTTPResponse, part: Path, start: int, total: int, report: Callable[[int], None]) -> int:
    """Write the answer's bytes to ``part`` from position ``start``; how many bytes it holds when the stream ends."""
    done = start
    with part.open("r+b" if start else "wb") as file:
        file.seek(start)
        while True:
            try:
                block = answer.read(BLOCK)
            except (http.client.IncompleteRead, ConnectionError, TimeoutError):
                if not total or done == start:
                    raise
                return done  # the caller connects again and goes on from here
            if not block:
                return done
            file.write(block)
            done += len(block)
            report(done)


def _check(remote: Remote, part: Path) -> None:
    """Remove a file whose checksum is wrong, so that the next attempt starts from nothing."""
    with part.open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if digest != remote.md5:
        part.unlink()
        raise UserError(
            f"The download of {remote.name} has the checksum {digest} instead of {remote.md5}, so it was removed. "
            f"Try again, or fetch {remote.url} by other means."
        )

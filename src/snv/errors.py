"""What a user sees when something is wrong: one sentence that says what, what was found, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A problem the user can solve; the command line prints its text and exits with 2, without a traceback."""


class InUseError(UserError):
    """Another process works on this very thing."""


class DivergedError(UserError):
    """Training went wrong twice: a matter of its settings, or of the data."""

    def __init__(self, what: str, advice: str = "") -> None:
        super().__init__(f"{what} {advice}".rstrip())
        self.what = what


class ShortOfMemoryError(UserError):
    """A step of training, on so many images, needs more memory than there is."""

    def __init__(self, images: int, reason: str) -> None:
        super().__init__(f"Memory ran out in a step of {images} images ({reason}).")
        self.images = images


class Interrupted(Exception):  # noqa: N818 - it is a request, not an error
    """Ctrl-C or a termination signal arrived and everything was saved; ``signum`` says which."""

    def __init__(self, signum: int, where: str) -> None:
        super().__init__(where)
        self.signum = signum


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """The answer to a name that does not exist: the nearest one that does, and the whole list."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return UserError(f"There is no {kind} called {name!r}.{hint} Known: {', '.join(names)}.")

"""Who answers for a game while it is valued: this process, others of this machine, or a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from snv.errors import UserError
from snv.shapley.game import Game
from snv.shapley.processes import LocalCrew
from snv.shapley.shared import Crew, SharedGame


@dataclass(frozen=True)
class Workers:
    """``n`` processes of this machine, or, with ``ray``, actors of the Ray cluster at that address.

    Values are the same bits for any ``n``, and those of this process if it computes with as many ``threads``.
    """

    n: int
    ray: str | None = None  # host:port, auto (the cluster this machine belongs to), or local (one begun for this)
    threads: int = 1  # of each

    def __post_init__(self) -> None:
        if self.n < 1 or self.threads < 1:
            raise UserError(f"Workers are 1 or more, of 1 thread or more; got {self.n} of {self.threads}.")

    def crew(self, game: Game) -> Crew:
        if self.ray is None:
            return LocalCrew(game, self.n, self.threads)
        from snv.shapley.on_ray import RayCrew

        return RayCrew(game, self.n, self.ray, self.threads)


def workers_of(asked: int | Workers | None) -> Workers | None:
    """A number means processes of this machine; None or 0 means this process."""
    return (Workers(asked) if asked else None) if asked is None or isinstance(asked, int) else asked


@contextmanager
def sharing(game: Game, workers: int | Workers | None) -> Iterator[Game]:
    """The game with workers to answer for it, all of which have ended after the block; without any, itself."""
    hired = workers_of(workers)
    if hired is None:
        yield game
        return
    crew = hired.crew(game)
    try:
        yield SharedGame(game, crew)
    finally:
        crew.close()


@contextmanager
def as_threaded_as(workers: Workers | None) -> Iterator[None]:
    """As many threads in this process as each worker has: what is computed here is part of the values too."""
    before = torch.get_num_threads()
    try:
        if workers is not None:
            torch.set_num_threads(workers.threads)
        yield
    finally:
        torch.set_num_threads(before)

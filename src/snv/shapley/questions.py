"""One call of a game as a message: what is asked, what is answered, and what the answer cost."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from snv.errors import UserError
from snv.shapley.game import Game

Asked = Literal["values", "flips", "gradient"]


class WorkerError(UserError):
    """A worker could not answer, or no worker is left."""


class Tally(float):
    """A number that remembers everything that was added to it, since the order decides how a sum is rounded."""

    parts: tuple[float, ...] = ()

    def __add__(self, cost: float) -> Tally:
        total = Tally(float(self) + cost)
        total.parts = (*self.parts, float(cost))
        return total


@dataclass(frozen=True, eq=False)
class Question:
    """A call of one of a game's three methods."""

    asked: Asked
    about: tuple[Tensor | None, ...]  # its arguments

    def is_same(self, other: Question) -> bool:
        return self.asked == other.asked and all(map(_alike, self.about, other.about))

    def __reduce__(self) -> tuple[Callable[..., Question], tuple[Any, ...]]:
        return _question, (self.asked, _arrays(self.about))


@dataclass(frozen=True, eq=False)
class Answer:
    """What the method returned, and every cost that it added to the game's ``evaluations``."""

    found: tuple[Tensor, ...]
    costs: tuple[float, ...]
    error: Exception | None = None  # what went wrong instead

    def __reduce__(self) -> tuple[Callable[..., Answer], tuple[Any, ...]]:
        return _answer, (_arrays(self.found), self.costs, self.error)


def answer(game: Game, question: Question) -> Answer:
    """Ask the game itself; a mistake of it is an answer too."""
    game.evaluations = spent = Tally()
    try:
        found = getattr(game, question.asked)(*question.about)
        spent = game.evaluations
    except UserError as error:
        return Answer((), (), UserError(str(error)))
    except Exception:
        return Answer((), (), RuntimeError(f"A worker failed:\n{traceback.format_exc()}"))  # others may not travel
    return Answer(found if isinstance(found, tuple) else (found,), spent.parts)


def _alike(one: Tensor | None, other: Tensor | None) -> bool:
    if one is None or other is None:
        return one is other
    return one is other or torch.equal(one, other)


def _question(asked: Asked, about: tuple[NDArray[Any] | None, ...]) -> Question:
    return Question(asked, tuple(None if part is None else torch.tensor(part) for part in about))


def _answer(found: tuple[NDArray[Any], ...], costs: tuple[float, ...], error: Exception | None) -> Answer:
    return Answer(tuple(map(torch.tensor, found)), costs, error)


def _arrays(tensors: tuple[Tensor | None, ...]) -> tuple[NDArray[Any] | None, ...]:
    """As arrays: PyTorch would send tensors through shared memory, of which containers have little."""
    return tuple(None if tensor is None else np.ascontiguousarray(tensor.detach().cpu().numpy()) for tensor in tensors)

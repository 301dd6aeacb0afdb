"""One valuation, many workers: what the draws to come will ask is answered ahead, and used when their turn comes.

Draws are made in this process, one after the other, as ever; only the game's answers come from workers. While a draw
waits for an answer, those after it are *rehearsed*: made up to the first question that has no answer yet, which is then
handed to a worker. An answer serves the very question that it was given to and no other, so a draw that depends on
those before it (whom a bandit samples) asks anew where it would now ask something else. So nothing that is counted,
decided or returned depends on how many workers there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count, islice
from typing import Protocol, runtime_checkable

from jaxtyping import Float64
from torch import Tensor

from snv.shapes import Gates, Indices, Mask
from snv.shapley.game import Coalitions, Drawn, Game, Payoffs
from snv.shapley.questions import Answer, Question


@runtime_checkable
class Crew(Protocol):
    """Workers, each of which holds the game: processes of this machine, actors of a cluster."""

    ahead: int  # questions that keep all of them busy

    def room(self) -> int:
        """How many more questions can be handed in now."""

    def submit(self, ticket: int, question: Question) -> None: ...

    def news(self) -> list[tuple[int, Answer]]:
        """Waits for the next answers. What a dead worker had is given to another; `WorkerError` if none is left."""

    def close(self) -> None:
        """End every worker."""


class Unanswered(Exception):  # noqa: N818 - the draw is made again when the answer is there
    """A draw cannot go on yet."""


class Talk:
    """What one draw has asked and was told, in order, and the question that it waits for."""

    def __init__(self) -> None:
        self.told: list[tuple[Question, Answer]] = []
        self.at = 0
        self.asks: Question | None = None
        self.ticket: int | None = None  # of the question, once a worker has it

    def begin(self) -> None:
        """The draw is made anew, and is told again what it was told before."""
        self.at = 0

    def ask(self, question: Question) -> Answer:
        if self.at < len(self.told) and question.is_same(self.told[self.at][0]):
            self.at += 1
            return self.told[self.at - 1][1]
        del self.told[self.at :]
        if self.asks is None or not question.is_same(self.asks):
            self.asks, self.ticket = question, None
        raise Unanswered

    def tell(self, answer: Answer) -> None:
        assert self.asks is not None
        self.told.append((self.asks, answer))
        self.end()

    def end(self) -> None:
        """Nothing is asked any more."""
        self.asks = self.ticket = None


class SharedGame(Game):
    """A game that workers answer for; ``evaluations`` are counted in ``game``, in the order of the draws."""

    def __init__(self, game: Game, crew: Crew) -> None:
        self.game, self.crew = game, crew
        self.n, self.n_examples = game.n, game.n_examples
        self.samples_examples, self.differentiable = game.samples_examples, game.differentiable
        self.names, self.layers = getattr(game, "names", None), getattr(game, "layers", None)
        self._talks: dict[range, Talk] = {}  # with the draws under way
        self._talk: Talk | None = None  # with the one that is being made
        self._tickets = count()

    @property
    def evaluations(self) -> float:
        return self.game.evaluations

    @evaluations.setter
    def evaluations(self, spent: float) -> None:
        self.game.evaluations = spent

    def values(self, coalitions: Coalitions, rows: Indices | None = None) -> Payoffs:
        return self._told(Question("values", (coalitions, rows)))[0]

    def flips(self, coalition: Mask, players: Indices, rows: Indices | None = None) -> Payoffs:
        return self._told(Question("flips", (coalition, players, rows)))[0]

    def gradient(self, gates: Gates, rows: Indices | None = None) -> tuple[Float64[Tensor, "p n"], Payoffs]:
        slopes, payoffs = self._told(Question("gradient", (gates, rows)))
        return slopes, payoffs

    def drawn(self, draw: Callable[[range], Drawn], numbers: range, later: Iterable[range] = ()) -> Drawn:
        turns = [numbers, *islice(later, self.crew.ahead)]
        self._talks = {turn: self._talks.get(turn, Talk()) for turn in turns}
        ready: list[Drawn] = []
        while True:
            for turn in turns:
                if turn == numbers:
                    ready = self._made(draw, turn)
                else:
                    self._rehearse(draw, turn)
            self._hand_out()
            if ready:
                return ready[0]
            turns = self._heard()

    def _made(self, draw: Callable[[range], Drawn], turn: range) -> list[Drawn]:
        """The draw whose turn it is, if all its questions are answered; then its costs count."""
        spent = self.evaluations
        try:
            with self._talking(turn):
                return [draw(turn)]
        except Unanswered:
            self.evaluations = spent
            return []

    def _rehearse(self, draw: Callable[[range], object], turn: range) -> None:
        """A later draw as far as it gets; whatever is wrong with it is said when its turn comes, if it comes."""
        spent = self.evaluations
        try:
            with self._talking(turn):
                draw(turn)
        except Exception:
            return
        finally:
            self.evaluations = spent

    @contextmanager
    def _talking(self, turn: range) -> Iterator[None]:
        self._talk = talk = self._talks[turn]
        talk.begin()
        try:
            yield
            talk.end()
        finally:
            self._talk = None

    def _told(self, question: Question) -> tuple[Tensor, ...]:
        if self._talk is None:  # asked outside all draws
            return self.drawn(lambda _: self._told(question), range(0))
        answer = self._talk.ask(question)
        if answer.error is not None:
            raise answer.error
        for cost in answer.costs:
            self.evaluations += cost
        return answer.found

    def _hand_out(self) -> None:
        """The questions of the earliest draws first."""
        for talk in self._talks.values():
            if talk.asks is not None and talk.ticket is None and self.crew.room() > 0:
                talk.ticket = next(self._tickets)
                self.crew.submit(talk.ticket, talk.asks)

    def _heard(self) -> list[range]:
        """Wait for answers: the draws that can go on."""
        answers = dict(self.crew.news())
        told = [turn for turn, talk in self._talks.items() if talk.ticket in answers]
        for turn in told:
            talk = self._talks[turn]
            talk.tell(answers[talk.ticket])  # type: ignore[index]
        return told

"""Workers that are actors of a Ray cluster: the game travels once, questions and answers as they come."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import torch

from snv.errors import UserError
from snv.machine import joined, load_ray
from snv.shapley.game import Game
from snv.shapley.processes import EACH, none_left
from snv.shapley.questions import Answer, Question, answer


class Holder:
    """What an actor is: a copy of the game, and one answer after the other."""

    def __init__(self, game: list[Any], threads: int) -> None:
        torch.set_num_threads(threads)
        self.game: Game = load_ray().get(game[0])  # in a list, so that it is made after the threads are set

    def answer(self, question: Question) -> Answer:
        return answer(self.game, question)


class RayCrew:
    """``n`` actors with a core for each thread, of the cluster at ``address``: see `snv.machine.joined`."""

    def __init__(self, game: Game, n: int, address: str, threads: int = 1) -> None:
        self._ending = ExitStack()
        self._ray, self._actors, self.ahead = self._ending.enter_context(joined(address)), {}, EACH * n
        self._asked: dict[Any, tuple[int, int, Question]] = {}  # by reference: actor, ticket, question
        try:
            self._check_cores(n * threads)
            held, holder = self._ray.put(game), self._ray.remote(num_cpus=threads)(Holder)
            self._actors = {i: holder.remote([held], threads) for i in range(n)}
        except BaseException:
            self.close()
            raise

    def room(self) -> int:
        return EACH * len(self._actors) - len(self._asked)

    def submit(self, ticket: int, question: Question) -> None:
        busy = [actor for actor, _, _ in self._asked.values()]
        actor = min(self._actors, key=busy.count)
        self._asked[self._actors[actor].answer.remote(question)] = actor, ticket, question

    def news(self) -> list[tuple[int, Answer]]:
        while True:
            done, _ = self._ray.wait(list(self._asked), num_returns=1)
            actor, ticket, question = self._asked.pop(done[0])
            try:
                return [(ticket, self._ray.get(done[0]))]
            except self._ray.exceptions.RayActorError as error:
                self._actors.pop(actor, None)
                if not self._actors:
                    raise none_left(f"the last one told {str(error).splitlines()[0]!r}") from None
                self.submit(ticket, question)

    def close(self) -> None:
        for actor in self._actors.values():
            self._ray.kill(actor)
        self._ending.close()

    def _check_cores(self, needed: int) -> None:
        there = int(self._ray.cluster_resources().get("CPU", 0))
        if there < needed:
            raise UserError(f"The Ray cluster has {there} cores, and {needed} are asked for. Take fewer workers.")

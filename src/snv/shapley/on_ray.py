"""Workers that are actors of a Ray cluster: the game travels once, questions and answers as they come."""

from __future__ import annotations

import importlib
import logging
import os
import socket
from typing import Any

import torch

from snv.errors import UserError
from snv.shapley.game import Game
from snv.shapley.processes import EACH, none_left
from snv.shapley.questions import Answer, Question, answer

KNOCK = 20.0
"""Seconds within which a cluster opens."""

QUIET = {"RAY_USAGE_STATS_ENABLED": "0"}
"""Ray reports nothing to its makers."""


class Holder:
    """What an actor is: a copy of the game, and one answer after the other."""

    def __init__(self, game: list[Any], threads: int) -> None:
        torch.set_num_threads(threads)
        self.game: Game = _ray().get(game[0])  # in a list, so that it is made after the threads are set

    def answer(self, question: Question) -> Answer:
        return answer(self.game, question)


class RayCrew:
    """``n`` actors with a core for each thread; a connection that the caller has made is taken, and left as it is.

    ``address`` is what `ray.init` takes: ``auto``, ``host:port``, ``ray://host:port``, or ``local``, a cluster of this
    machine that ends with the crew.
    """

    def __init__(self, game: Game, n: int, address: str, threads: int = 1) -> None:
        self._ray, self._actors, self.ahead = _ray(), {}, EACH * n
        self._asked: dict[Any, tuple[int, int, Question]] = {}  # by reference: actor, ticket, question
        self._joined = not self._ray.is_initialized()
        if self._joined:
            self._join(address)
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
        if self._joined:
            self._ray.shutdown()

    def _join(self, address: str) -> None:
        alone = {"include_dashboard": False} if address == "local" else {}
        try:
            _knock(address)
            self._ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **alone)
        except Exception as error:  # Ray has many
            raise UserError(
                f"There is no Ray cluster at {address!r}: {str(error).strip().splitlines()[0]}. Start one with "
                "`ray start --head`, or take `local` for this machine alone."
            ) from error

    def _check_cores(self, needed: int) -> None:
        there = int(self._ray.cluster_resources().get("CPU", 0))
        if there < needed:
            raise UserError(f"The Ray cluster has {there} cores, and {needed} are asked for. Take fewer workers.")


def _knock(address: str) -> None:
    """Ray itself would try for minutes."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if colon:
        socket.create_connection((host, int(port)), timeout=KNOCK).close()


def _ray() -> Any:
    os.environ |= {name: value for name, value in QUIET.items() if name not in os.environ}
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise UserError("Ray is not installed. Use pip install 'snv[ray]'.") from None

"""Workers that are processes of this machine, each with a copy of the game and threads of its own."""

from __future__ import annotations

import multiprocessing
import os
import pickle
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from threading import Thread

import torch

from snv.errors import UserError
from snv.shapley.game import Game
from snv.shapley.questions import Answer, Question, WorkerError, answer

EACH = 2
"""Questions that a worker has at once: the next is there when it has answered one."""

GRACE = 10.0
"""Seconds a process may take to end."""


@dataclass
class _Worker:
    process: BaseProcess
    has: dict[int, Question] = field(default_factory=dict)  # by ticket


class LocalCrew:
    """``n`` processes, begun at once; what one of them had when it died, another gets."""

    def __init__(self, game: Game, n: int, threads: int = 1) -> None:
        sent, self.ahead = pickled(game), EACH * n
        self._workers: dict[Connection, _Worker] = {}
        self._codes: list[int | None] = []  # with which processes ended
        spawn = multiprocessing.get_context("spawn")  # a fork would inherit PyTorch's threads half-alive
        for _ in range(n):
            ours, theirs = spawn.Pipe()
            process = spawn.Process(target=_work, args=(theirs, threads), daemon=True)
            process.start()
            theirs.close()  # so that the end of either side is seen by the other
            self._workers[ours] = _Worker(process)
        for connection in self._workers:
            with suppress(ConnectionError):  # a process that is gone is noticed when its answer is read
                connection.send_bytes(sent)

    def room(self) -> int:
        return sum(max(0, EACH - len(worker.has)) for worker in self._workers.values())

    def submit(self, ticket: int, question: Question) -> None:
        connection, worker = min(self._workers.items(), key=lambda item: len(item[1].has))
        worker.has[ticket] = question
        with suppress(ConnectionError):
            connection.send_bytes(pickle.dumps((ticket, question)))

    def news(self) -> list[tuple[int, Answer]]:
        found: list[tuple[int, Answer]] = []
        while not found:
            for connection in wait(list(self._workers)):
                assert isinstance(connection, Connection)
                found += self._read(connection)
        return found

    def close(self) -> None:
        for connection, worker in self._workers.items():
            worker.process.terminate()
            worker.process.join(GRACE)
            worker.process.kill()
            worker.process.join()
            connection.close()
        self._workers.clear()

    def pids(self) -> list[int]:
        """The processes there are."""
        return [worker.process.pid for worker in self._workers.values() if worker.process.pid is not None]

    def _read(self, connection: Connection) -> list[tuple[int, Answer]]:
        try:
            ticket, told = connection.recv()
        except (EOFError, ConnectionError):
            self._replace(connection)
            return []
        if ticket is None:
            raise told.error
        del self._workers[connection].has[ticket]
        return [(ticket, told)]

    def _replace(self, connection: Connection) -> None:
        """Others get what a dead worker had."""
        lost = self._workers.pop(connection)
        connection.close()
        lost.process.join(GRACE)
        self._codes.append(lost.process.exitcode)
        if not self._workers:
            raise none_left(f"they ended with the codes {', '.join(map(str, self._codes))}")
        for ticket, question in lost.has.items():
            self.submit(ticket, question)


def none_left(how: str) -> WorkerError:
    return WorkerError(
        f"No worker is left: {how}. Killed by the system (-9), they may have been too many for the memory; ended at "
        "once, the script that asked for them may lack `if __name__ == '__main__':`. Take fewer workers, or none."
    )


def pickled(game: Game) -> bytes:
    """The game as it is sent to another process."""
    try:
        return pickle.dumps(game)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise UserError(
            f"The game cannot be sent to another process ({error}). Define the model's class, its payoff and its "
            "forward function at the top level of a module, or do without workers."
        ) from None


def _work(connection: Connection, threads: int) -> None:
    """A worker's life: the game comes in, then question after question, until the other side is gone."""
    if hasattr(os, "setsid"):
        os.setsid()  # Ctrl-C reaches the parent only, which then ends every worker
    torch.set_num_threads(threads)
    with suppress(EOFError, ConnectionError, KeyboardInterrupt):
        try:
            game = connection.recv()
        except Exception as error:
            why = f"A worker cannot make the game ({type(error).__name__}: {error}). Define its parts in a module."
            connection.send((None, Answer((), (), WorkerError(why))))
            return
        questions: SimpleQueue[tuple[int, Question]] = SimpleQueue()
        Thread(target=_listen, args=(connection, questions), daemon=True).start()
        while True:
            ticket, question = questions.get()
            connection.send_bytes(pickle.dumps((ticket, answer(game, question))))


def _listen(connection: Connection, questions: SimpleQueue[tuple[int, Question]]) -> None:
    """Take in questions at any time, so that neither side waits for the other to read; end with the parent."""
    with suppress(EOFError, ConnectionError):
        while True:
            questions.put(connection.recv())
    os._exit(0)

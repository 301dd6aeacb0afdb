"""Several processes that train together, as torchrun would start them."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import socket
from collections.abc import Callable
from typing import Any

FRESH = multiprocessing.get_context("forkserver")
FRESH.set_forkserver_preload(["snv.runs.run", "torch._dynamo"])  # the operation counter asks for the second
PATIENCE = 120
"""Seconds: far more than any of it takes, so that a process that hangs is a failed test."""


class Company:
    """Processes 0 … n−1, each calling ``function(rank, *args)``; whoever is left at the end of the block is ended."""

    def __init__(self, n: int, function: Callable[..., Any], *args: Any) -> None:
        pipes = [FRESH.Pipe(duplex=False) for _ in range(n)]
        self._answers = [receiver for receiver, _ in pipes]
        port = _free_port()
        self.processes = [
            FRESH.Process(target=_work, args=(rank, n, port, sender, function, args))
            for rank, (_, sender) in enumerate(pipes)
        ]
        for process, (_, sender) in zip(self.processes, pipes, strict=True):
            process.start()
            sender.close()

    def answer(self, rank: int) -> Any:
        """What the function returned there, or the exception it ended with; None if the process was killed."""
        try:
            there = self._answers[rank].poll(PATIENCE)
            return pickle.loads(self._answers[rank].recv_bytes()) if there else "it hangs"
        except EOFError:
            return None

    def answers(self) -> list[Any]:
        return [self.answer(rank) for rank in range(len(self.processes))]

    def __enter__(self) -> Company:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.join(5)
            process.kill()
            process.join()


def of_two(function: Callable[..., Any], *args: Any) -> list[Any]:
    """What two processes return."""
    with Company(2, function, *args) as company:
        return company.answers()


def _work(rank: int, n: int, port: int, sender: Any, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(n)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    try:
        answer = function(rank, *args)
    except Exception as error:
        answer = error
    sender.send_bytes(pickle.dumps(answer))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

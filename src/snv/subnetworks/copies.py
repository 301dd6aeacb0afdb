"""Subnetworks that were cut out, remembered for the next question as far as there is room for them."""

from __future__ import annotations

from collections.abc import Callable

from snv.networks import bytes_of
from snv.subnetworks.cutting import Compact

ROOM = 2**30
"""Bytes of all copies together: each is its part of the network once more. Those beyond are made anew each time."""


class Copies:
    """By kind and task. They follow from the network, so any may be let go at any time."""

    def __init__(self, room: int = ROOM) -> None:
        self.room = room
        self._kept: dict[tuple[str, int], Compact] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, kind: str, t: int, make: Callable[[], Compact]) -> Compact:
        """The copy of this kind for task t, made if it is not there."""
        copy = self._kept.get((kind, t))
        if copy is None:
            copy = make()
            if sum(map(bytes_of, (copy, *self._kept.values()))) <= self.room:
                self._kept[kind, t] = copy
        return copy

    def clear(self) -> None:
        """Before the network changes; or while nobody asks, since they take memory, more with every task."""
        self._kept.clear()

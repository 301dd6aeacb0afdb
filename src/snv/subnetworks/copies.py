"""Subnetworks that were cut out, remembered for the next question as far as there is room for them."""

from __future__ import annotations

from collections.abc import Callable

from snv.networks import bytes_of
from snv.subnetworks.cutting import Compact

MOST, ROOM = 64, 2**30
"""Copies that are remembered at most, and bytes of all together: each is its part of the network once more."""


class Copies:
    """By kind and task. They follow from the network, so any may be let go at any time.

    Where there is no more room the newest goes, not the oldest: who asks all tasks in turn finds most of them again.
    """

    def __init__(self, most: int = MOST, room: int = ROOM) -> None:
        self.most, self.room = most, room
        self._kept: dict[tuple[str, int], Compact] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, kind: str, t: int, make: Callable[[], Compact]) -> Compact:
        """The copy of this kind for task t, made if it is not there."""
        copy = self._kept.get((kind, t))
        if copy is None:
            copy = make()
            while self._kept and not self._has_room_for(copy):
                self._kept.popitem()
            self._kept[kind, t] = copy
        return copy

    def _has_room_for(self, copy: Compact) -> bool:
        return len(self) < self.most and sum(map(bytes_of, (copy, *self._kept.values()))) <= self.room

    def clear(self) -> None:
        """Before the network changes; or while nobody asks."""
        self._kept.clear()

"""Copies are made once while there is room, and anew each time where there is none."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from snv.networks import bytes_of
from snv.subnetworks.copies import Copies
from snv.subnetworks.cutting import Compact


def a_copy() -> Compact:
    return Compact(nn.Linear(3, 3), nn.Linear(3, 2), torch.arange(3))


def test_a_copy_is_made_once_by_kind_and_task_until_all_are_let_go():
    copies, made = Copies(), []

    def make() -> Compact:
        made.append(a_copy())
        return made[-1]

    first = copies.of("cut out", 0, make)
    assert copies.of("cut out", 0, make) is first
    assert copies.of("folded", 0, make) is not first
    assert copies.of("cut out", 1, make) is not first
    assert (len(made), len(copies)) == (3, 3)
    copies.clear()
    assert len(copies) == 0 and copies.of("cut out", 0, make) is made[3]


@pytest.mark.parametrize("room", [0, 1, 2, 3])
def test_together_they_never_take_more_than_the_room_there_is(room):
    copies = Copies(room * bytes_of(a_copy()))
    for t in range(5):
        assert copies.of("cut out", t, a_copy) is not None
        assert len(copies) == min(t + 1, room)

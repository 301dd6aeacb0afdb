"""Copies are made once while there is room, and anew each time where there is none."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from toy import learn, make, toy_stream

from snv.networks import bytes_of
from snv.neurons.sources import KEPT
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


@pytest.mark.parametrize(("most", "room"), [(3, 100), (100, 3)])
def test_without_room_the_newest_goes_so_that_most_are_found_by_whoever_asks_all_in_turn(most, room):
    copies, made = Copies(most, room * bytes_of(a_copy())), []

    def asked(t: int) -> Compact:
        return copies.of("cut out", t, lambda: made.append(t) or a_copy())

    for _ in range(2):
        for t in range(5):
            assert asked(t) is asked(t)  # whoever is asked again is there
            assert len(copies) == min(max(made) + 1, 3)
    assert made == [0, 1, 2, 3, 4, 2, 3, 4]


def test_a_copy_larger_than_the_room_is_kept_alone():
    copies = Copies(room=1)
    first = copies.of("cut out", 0, a_copy)
    assert copies.of("cut out", 0, a_copy) is first
    copies.of("cut out", 1, a_copy)
    assert len(copies) == 1 and copies.of("cut out", 0, a_copy) is not first


def test_cutting_out_and_folding_leave_no_source_text_behind():
    stream = toy_stream()
    learner = make("snv", "cil", stream, capacity=0.3)
    learn(learner, stream, 0)
    images, before = torch.zeros(2, *learner.setting.preprocess.shape), len(KEPT)
    for _ in range(3):
        learner.specialists.copies.clear()
        learner.specialists._ask(images, 0)
        learner.specialists.answer(images, 0)
    assert len(learner.specialists.copies) == 2
    assert len(KEPT) == before

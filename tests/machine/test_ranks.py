"""What processes tell each other: alone nothing, together the same to all."""

from __future__ import annotations

import os

import pytest
import torch

from company import of_two
from snv.errors import UserError
from snv.machine import ranks
from snv.machine.ranks import LostError


def rows_of(rank: int, n: int) -> object:
    with ranks.together():
        part = ranks.part_of(n)
        return None if part is None else (list(range(n))[part.rows], part.weight)


def everything(rank: int) -> dict[str, object]:
    done: dict[str, object] = {"before": ranks.size()}
    with ranks.together():
        x = torch.tensor([0.1, 1.0]) * (rank + 1)
        ranks.add_up(x)
        done |= {"size": ranks.size(), "rank": ranks.rank(), "first": ranks.first(), "sum": x.tolist()}
        done |= {"total": ranks.total(rank, 2.5), "largest": ranks.largest(rank, 5 - rank)}
        done |= {"everyones": ranks.everyones(f"process {rank}"), "told": ranks.told(lambda: f"said by {rank}")()}
        done |= {"items": ranks.interleaved(list(range(5))[rank::2])}
        calls: list[int] = []
        ranks.by_first(lambda: calls.append(rank))()
        done["calls"] = calls
        try:
            ranks.told(refusing)()
        except UserError as error:
            done["refusal"] = str(error)
        try:
            ranks.require_alike(f"mark {rank}", "at the end")
        except UserError as error:
            done["apart"] = str(error)
        done["inside"] = ranks.told(ranks.size)()  # what only the first does concerns nobody else
    return done


def refusing() -> None:
    raise UserError("no")


def leaving(rank: int) -> object:
    with ranks.together():
        if rank == 1:
            os._exit(0)
        ranks.add_up(torch.zeros(1))
    return "nothing noticed"


@pytest.fixture(scope="module")
def two() -> list[dict[str, object]]:
    answers = of_two(everything)
    assert all(isinstance(answer, dict) for answer in answers), answers
    return answers


def test_alone_nothing_changes():
    x = torch.ones(3)
    with ranks.together():
        ranks.add_up(x)
        assert torch.equal(x, torch.ones(3))
        assert (ranks.size(), ranks.rank(), ranks.first(), ranks.speaks()) == (1, 0, True, True)
        assert ranks.total(1, 2.5) == (1, 2.5) and ranks.largest(3) == (3,) and ranks.everyones("a") == ["a"]
        assert ranks.told(lambda: 4)() == 4 and ranks.interleaved([1, 2]) == [1, 2] and ranks.part_of(9) is None
        ranks.require_alike("mark", "ever")


def test_all_hear_the_same(two):
    for answer in two:
        assert answer["before"] == 1 and answer["size"] == 2
        assert answer["sum"] == pytest.approx([0.3, 3.0])
        assert answer["total"] == (1.0, 5.0) and answer["largest"] == (1, 5)
        assert answer["everyones"] == ["process 0", "process 1"]
        assert answer["told"] == "said by 0" and answer["refusal"] == "no" and answer["inside"] == 1
        assert answer["items"] == [0, 1, 2, 3, 4]
    assert [answer["first"] for answer in two] == [True, False]
    assert [answer["calls"] for answer in two] == [[0], []]
    assert two[0]["sum"] == two[1]["sum"]


def test_marks_that_differ_stop_all(two):
    for answer in two:
        assert "drifted apart: at the end, process 1 holds other bits than process 0" in answer["apart"]


def test_rows_are_dealt_out_and_too_few_are_not():
    assert of_two(rows_of, 5) == [([0, 2, 4], 3 / 5), ([1, 3], 2 / 5)]
    assert of_two(rows_of, 1) == [None, None]


def test_who_waits_for_a_process_that_is_gone_is_told():
    error, nothing = of_two(leaving)
    assert nothing is None
    assert isinstance(error, LostError) and "has ended or cannot be reached" in str(error)

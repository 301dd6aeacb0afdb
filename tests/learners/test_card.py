"""What a card says is what is listed."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from snv.learners import LEARNERS, SGD, Card, method_table

ROOT = Path(__file__).parents[2]


def test_a_card_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        SGD.card.title = "another"


@pytest.mark.parametrize("name", LEARNERS)
def test_every_method_has_a_card_of_its_own_and_a_page(name):
    card = LEARNERS[name].card
    assert isinstance(card, Card)
    assert sum(kind.card.title == card.title for kind in LEARNERS.values()) == 1
    assert (ROOT / "docs" / "methods" / f"{card.page}.md").exists()


def test_the_table_has_a_row_for_every_method_in_the_order_of_the_catalogue():
    _, _, *rows = method_table(LEARNERS).splitlines()
    assert [row.split("`")[1] for row in rows] == list(LEARNERS)
    assert all(row.count(" | ") == 4 for row in rows)


def test_a_method_without_a_page_is_named_without_a_link():
    class Own(SGD):
        card = Card(title="Own", paper="none", scenarios=("til",), memory="a number")

    Own.__module__ = "snv.learners.own"
    row = method_table({"own": Own}).splitlines()[-1]
    assert row == "| `own` | [`learners/own.py`](src/snv/learners/own.py) | none | TIL | a number |"

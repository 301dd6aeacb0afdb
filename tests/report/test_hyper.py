from __future__ import annotations

import dataclasses

import pytest
from table_records import a_result

from snv.learners import LEARNERS
from snv.report import table
from snv.report.hyper import NAMES


@pytest.mark.parametrize("method", NAMES)
def test_every_setting_of_the_papers_grid_has_a_row_and_is_one_of_ours(method):
    assert list(NAMES[method].values()) == list(LEARNERS[method].card.space)
    own = {f"learner.{field.name}" for field in dataclasses.fields(LEARNERS[method].Config)}
    assert {name for name in NAMES[method].values() if name.startswith("learner.")} <= own


def test_all_methods_with_settings_in_the_paper_are_there():
    assert set(NAMES) == {name for name, kind in LEARNERS.items() if kind.card.presets}


def row_of(name: str, results, method: str, symbol: str):
    return next(
        r for r in table(name, results).rows if r.label == method and r.cells[0].text.startswith(f"{symbol} = ")
    )


def test_what_was_searched_is_every_value_of_the_runs():
    results = [a_result("ewc", "til", strength=value, name=str(value)) for value in (100.0, 1.0)]
    told = [cell.text for cell in row_of("grids", results, "ewc", "λ").cells]
    assert told == ["λ = learner.strength", "10, 25, 30, 90, 100", "1, 100", "–"]


def test_what_was_chosen_stands_beside_the_papers_choice_and_our_default():
    told = [cell.text for cell in row_of("chosen", [a_result("ewc", "cil", strength=3.0)], "ewc", "λ").cells]
    assert told == ["λ = learner.strength", "10", "10", "25", "10", "not yet run", "3"]
    assert [cell.text for cell in row_of("chosen", [], "wsn", "c").cells][-2:] == ["not yet run", "–"]

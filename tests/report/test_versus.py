from __future__ import annotations

import pytest
from table_records import a_result, with_final

from snv.errors import UserError
from snv.report import table


def runs(method: str, *finals: float, start: int = 0):
    return [a_result(method, seed=start + i, accuracy=with_final(acc, acc)) for i, acc in enumerate(finals)]


def cells(results, method: str):
    return table("versus", results, against="snv").row(method).cells


def test_differences_are_of_common_seeds_with_interval_and_test():
    results = [*runs("snv", 50.0, 60.0, 73.0, 90.0), *runs("ewc", 51.0, 62.0, 76.0)]  # +1, +2, +3
    difference, seeds, cil, _ = cells(results, "ewc")
    assert (difference.value, seeds.seeds) == (2.0, (0, 1, 2))
    assert difference.interval == pytest.approx((2 - 4.30265 / 3**0.5, 2 + 4.30265 / 3**0.5), abs=1e-4)
    assert difference.p == pytest.approx(1 - 12**0.5 / 14**0.5)
    assert cil.text == "not yet run"
    assert len(difference.runs) == 3
    assert "snv-til-seed0.json" in difference.note


def test_the_reference_has_no_row_and_methods_without_a_common_seed_no_number():
    results = [*runs("snv", 50.0), *runs("ewc", 51.0, start=5)]
    assert "snv" not in [row.label for row in table("versus", results).rows]
    assert cells(results, "ewc")[0].text == "no common seed"
    assert cells(runs("ewc", 51.0), "ewc")[0].text == "no run of snv"
    twice = [*runs("snv", 50.0), *(a_result("ewc", strength=c, name=str(c)) for c in (1.0, 2.0))]
    assert cells(twice, "ewc")[0].text == "run in several ways"
    with pytest.raises(UserError, match="no method called"):
        table("versus", results, against="nobody")

"""A directory holds one run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from snv.config import load_config
from snv.errors import UserError
from snv.runs.same import check_marks, check_same


def stored(*overrides: str) -> dict[str, object]:
    return json.loads(json.dumps(load_config(None, overrides).as_dict()))


@pytest.mark.parametrize("override", ["keep=last", "checkpoint_seconds=5", "data.workers=2"])
def test_what_changes_no_result_may_change(override):
    check_same(load_config(None, [override]), stored(), Path("out"))


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("seed=4", "seed was 0 and is now 4"),
        ("data.split=official", "data.split was '70/10/20' and is now 'official'"),
        ("data.order=[1, 2, 3, 4, 5]", r"data.order was None and is now \[1, 2, 3, 4, 5\]"),
        ("method=ewc", "method was 'sgd' and is now 'ewc'"),
    ],
)
def test_any_other_change_is_refused(override, told):
    with pytest.raises(UserError, match=told):
        check_same(load_config(None, [override]), stored(), Path("out"))


def test_an_order_task_by_task_is_the_same_when_it_is_read_back():
    order = 'data.order=[["3", "1"], ["0", "2"]]'
    check_same(load_config(None, [order]), stored(order), Path("out"))


def test_a_stored_method_that_is_another_file_is_not_executed(tmp_path):
    trap = tmp_path / "trap.py"
    trap.write_text("raise SystemExit('executed')")
    with pytest.raises(UserError, match=r"method was .*trap\.py:Trap"):
        check_same(load_config(), stored() | {"method": f"{trap}:Trap"}, Path("out"))


def test_a_fingerprint_that_is_missing_or_another_is_refused():
    check_marks({"network": "ab"}, {"network": "ab"}, Path("out"))
    for environment in ({}, {"network": "cd"}):
        with pytest.raises(UserError, match="began with another network"):
            check_marks({"network": "ab"}, environment, Path("out"))

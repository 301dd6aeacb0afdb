"""Settings out of their range."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from snv.errors import UserError
from snv.learners.checks import check_least, check_range


@pytest.mark.parametrize("value", [None, 0, 0.5, 1])
def test_what_is_allowed_or_left_out_passes(value):
    check_range(SimpleNamespace(decay=value), "decay", 0, 1)


@pytest.mark.parametrize("value", [-0.1, 1.5, float("nan"), float("inf")])
def test_what_is_not_is_refused_with_advice(value):
    with pytest.raises(UserError, match=r"learner\.decay lies in \[0, 1\]; got .*\. Try 1\."):
        check_range(SimpleNamespace(decay=value), "decay", 0, 1, advice="Try 1.")
    with pytest.raises(UserError, match=r"learner\.decay is at least 2, and finite; got"):
        check_range(SimpleNamespace(decay=value), "decay", 2)


@dataclass(frozen=True)
class Widths:
    first: int = 40
    second: int | None = None


def test_several_settings_have_one_least_value_and_the_advice_is_their_default():
    check_least(Widths(1, None), 1, "first", "second")
    with pytest.raises(UserError, match=r"learner\.first is at least 1, and finite; got 0\. Try 40\."):
        check_least(Widths(0), 1, "first", "second")
    with pytest.raises(UserError, match=r"learner\.second .*; got 0\. Try two\."):
        check_least(Widths(second=0), 1, "first", "second", advice="Try two.")

"""Settings out of their range."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from snv.errors import UserError
from snv.learners.checks import check_range


@pytest.mark.parametrize("value", [None, 0, 0.5, 1])
def test_what_is_allowed_or_left_out_passes(value):
    check_range(SimpleNamespace(decay=value), "decay", 0, 1)


@pytest.mark.parametrize("value", [-0.1, 1.5, float("nan"), float("inf")])
def test_what_is_not_is_refused_with_advice(value):
    with pytest.raises(UserError, match=r"learner\.decay lies in \[0, 1\]; got .*\. Try 1\."):
        check_range(SimpleNamespace(decay=value), "decay", 0, 1, advice="Try 1.")
    with pytest.raises(UserError, match=r"learner\.decay is at least 2, and finite; got"):
        check_range(SimpleNamespace(decay=value), "decay", 2)

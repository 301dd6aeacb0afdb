"""Settings of DCNet out of their range are refused before anything is trained."""

from __future__ import annotations

import pytest

from snv.errors import UserError
from snv.learners import DCNet


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("contrast", -1, "contrast is at least 0"),
        ("switch", 1.5, r"switch lies in \[0, 1\]"),
        ("first_sparsity", -0.1, "first_sparsity is at least 0"),
        ("sparsity", float("inf"), "sparsity is at least 0, and finite"),
        ("steepest", 0, "steepest is at least 1"),
        ("start", 7, r"start lies in \[-6.0, 6.0\]"),
        ("dimension", 0, "dimension is at least 1"),
        ("views", 3, r"views lies in \[1, 2\]"),
        ("classifier_epochs", 0, "classifier_epochs is at least 1"),
        ("classifier_passes", 0, "classifier_passes is at least 1"),
    ],
)
def test_settings_out_of_range_are_refused_in_one_sentence(name, value, words):
    with pytest.raises(UserError, match=f"learner.{words}.*got {value}. Try"):
        DCNet.Config(**{name: value})

"""A valuation as pictures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from snv.errors import UserError
from snv.shapley.estimate import estimate
from snv.shapley.known_games import quadratic
from snv.shapley.plots import PLOTS, save_plots


def valuation():
    return replace(estimate(quadratic(), "gradient", draws=8), layers=("first",) * 3 + ("second",) * 5)


def test_the_three_pictures_are_drawn(tmp_path):
    paths = save_plots(valuation(), tmp_path)
    assert [p.stem for p in paths] == list(PLOTS)
    assert all(p.stat().st_size > 5000 for p in paths)


def test_a_valuation_plots_itself():
    for name in PLOTS:
        assert valuation().plot(name).axes


def test_an_unknown_picture_is_answered_with_the_known_ones():
    with pytest.raises(UserError, match="Did you mean 'layers'"):
        valuation().plot("layer")

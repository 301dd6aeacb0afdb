from __future__ import annotations

import math

import pytest
import torch

from snv.errors import UserError
from snv.report.analyses.exact import YEAR, enumerated, exact
from snv.shapley import Airport


def test_enumeration_is_timed_until_it_is_refused(sgd_run):
    found = exact(sgd_run, players=(2, 6, 20, 17))
    assert [one.players for one in found.sizes] == [2, 6, 17, 20]
    assert [one.looked_at for one in found.sizes] == [4, 64, 0, 0]
    assert found.sizes[1].seconds > 0 and found.sizes[2].seconds is None
    assert found.seconds_per_coalition == pytest.approx(found.sizes[1].seconds / 64)
    years = 2**12 * found.seconds_per_coalition / YEAR
    assert found.log10_years == pytest.approx(math.log10(years))
    assert found.shown().rows[3][3] == "the network has 12 neurons"


def test_more_than_16_players_are_refused_by_the_estimator_itself():
    many = enumerated(Airport(torch.arange(17.0, dtype=torch.float64)), 17, 1.0, lambda *_: None)
    assert "refused: exact takes up to 16 players" in many.ended and many.coalitions == 2**17


def test_out_of_time_there_is_no_forecast(sgd_run):
    with pytest.raises(UserError, match="No enumeration finished within 1e-09 seconds"):
        exact(sgd_run, players=(10,), max_seconds=1e-9)
    with pytest.raises(UserError, match="at least 2 each"):
        exact(sgd_run, players=(1,))

"""Every setting of SNV learns, and one that makes no sense is refused."""

from __future__ import annotations

import pytest
from snv_toy import learned
from toy import make, toy_stream

from snv.errors import UserError
from snv.runs.evaluate import accuracy
from snv.valuation.scores import SCORES


@pytest.mark.parametrize("key", ["capacity", "largest", "dense_share"])
def test_a_share_outside_its_range_is_refused(key):
    with pytest.raises(UserError, match=f"learner.{key} is a share"):
        make("snv", "til", toy_stream(), **{key: 1.5})


SWITCHES = [
    {"size": "top-k"},
    {"reuse": "none"},
    {"reuse": "counted"},
    {"estimator": "hybrid", "draws": 8},
    {"estimator": "montecarlo", "draws": 4},
    {"estimator": "truncated", "draws": 4},
    {"estimator": "tmab", "draws": 4},
    {"estimator": "in-run"},
    *({"estimator": name} for name in SCORES if name != "norm-gamma"),
]


@pytest.mark.parametrize("options", SWITCHES, ids=lambda o: "-".join(map(str, o.values())))
def test_every_switch_learns(options):
    learner, stream = learned(2, **options)
    assert accuracy(learner, stream.test(1), stream.blocks[1]) > 60


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"estimator": "gradent"}, "gradient"),
        ({"rule": "densty"}, "density"),
        ({"draws": 0}, "learner.draws is at least 1"),
        ({"floor": 0.1}, "learner.floor is a setting of truncated and tmab; learner.estimator=gradient has none"),
        (
            {"confidence": 0.9},
            "learner.confidence is a setting of tmab and hybrid; learner.estimator=gradient",
        ),
        ({"floor": 1.0, "estimator": "tmab"}, "floor is a share"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(options, said):
    with pytest.raises(UserError, match=said):
        make("snv", "til", toy_stream(), **options)

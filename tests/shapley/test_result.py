"""The result object: saved, loaded, continued, merged and shown without losing a bit."""

from __future__ import annotations

import math
import sys
from dataclasses import replace

import pytest
import torch

from snv.errors import UserError
from snv.shapley.estimate import ESTIMATORS, estimate
from snv.shapley.known_games import examples, quadratic, saturating, unanimity
from snv.shapley.result import Valuation

SHORT = {
    "exact": {},
    "montecarlo": {"permutations": 6},
    "truncated": {"permutations": 6},
    "tmab": {"permutations": 36, "eps": 0.01},
    "regression": {"coalitions": 40},
    "gradient": {"draws": 6},
    "hybrid": {"draws": 6, "pilot_coalitions": 8, "burn_in": 2, "rounds": 4, "fresh": 3, "eps": 0.001},
}
LONGER = {
    "montecarlo": {"permutations": 15},
    "truncated": {"permutations": 15},
    "tmab": {"permutations": 60, "eps": 0.01},
    "regression": {"coalitions": 90},
    "gradient": {"draws": 22},
    "hybrid": {**SHORT["hybrid"], "rounds": 9},
}


def same(a: Valuation, b: Valuation) -> bool:
    tensors = ("values", "stderr", "counts", "halves", "unbiased", "unbiased_stderr", "contested")
    pairs = [(getattr(a, name), getattr(b, name)) for name in tensors]
    equal = all((x is None and y is None) or torch.equal(x.nan_to_num(), y.nan_to_num()) for x, y in pairs)
    return equal and a.evaluations == b.evaluations and a.eps == b.eps


@pytest.mark.parametrize("method", LONGER)
@pytest.mark.parametrize("make", [unanimity, saturating], ids=["unanimity", "saturating"])
def test_a_continued_run_equals_one_longer_run_bit_for_bit(method, make, tmp_path):
    estimate(make(), method, seed=5, k=3, **SHORT[method]).save(tmp_path / "half.safetensors")
    half = Valuation.load(tmp_path / "half.safetensors")
    continued = estimate(make(), method, seed=5, k=3, resume=half, **LONGER[method])
    assert same(continued, estimate(make(), method, seed=5, k=3, **LONGER[method]))


@pytest.mark.parametrize("method", ["montecarlo", "gradient"])
def test_a_continued_run_sees_the_minibatches_it_would_have_seen(method):
    settings = [{**s[method], "minibatch": 5} for s in (SHORT, LONGER)]
    half = estimate(examples(), method, **settings[0])
    assert same(estimate(examples(), method, resume=half, **settings[1]), estimate(examples(), method, **settings[1]))


@pytest.mark.parametrize("method", ESTIMATORS)
def test_what_is_saved_is_what_is_loaded(method, tmp_path):
    found = replace(estimate(quadratic(), method, **SHORT[method]), names=tuple("abcdefgh"), layers=("x",) * 8)
    found.save(tmp_path / "values.safetensors")
    again = Valuation.load(tmp_path / "values.safetensors")
    assert same(found, again)
    assert (again.names, again.stopped, again.certificate) == (found.names, found.stopped, found.certificate)
    assert again.seconds == found.seconds


def test_merged_runs_are_one_sample():
    first, second = (estimate(saturating(), "montecarlo", permutations=p, seed=s) for s, p in enumerate((4, 9)))
    merged, swapped = first.merge(second), second.merge(first)
    assert merged.counts.tolist() == [13] * 8
    torch.testing.assert_close(merged.values, (4 * first.values + 9 * second.values) / 13)
    torch.testing.assert_close(merged.stderr, swapped.stderr)
    assert merged.evaluations == first.evaluations + second.evaluations
    assert merged.efficiency_ratio == pytest.approx(1)
    with pytest.raises(UserError, match="cannot be continued"):
        estimate(saturating(), "montecarlo", permutations=20, resume=merged)


def test_what_must_not_be_merged_is_refused():
    found = estimate(saturating(), "montecarlo", permutations=4)
    with pytest.raises(UserError, match="same draws"):
        found.merge(found)
    with pytest.raises(UserError, match="same method"):
        found.merge(estimate(saturating(), "truncated", permutations=4, seed=1))
    bandits = [estimate(saturating(), "tmab", permutations=4, burn_in=3, seed=s) for s in (0, 1)]
    hybrids = [estimate(saturating(), "hybrid", seed=s, **SHORT["hybrid"]) for s in (0, 1)]
    for one, other in (bandits, hybrids):
        with pytest.raises(UserError, match="cannot merge"):
            one.merge(other)


def test_halves_are_independent_answers_of_the_same_question():
    found = estimate(unanimity(), "montecarlo", permutations=400, k=3)
    torch.testing.assert_close(found.halves.mean(0), found.values)
    assert not torch.equal(found.halves[0], found.halves[1])
    assert found.split_half_overlap == 1.0


def test_the_top_k_is_signed_and_k_may_be_a_share():
    found = estimate(quadratic(), "exact", k=2)
    order = found.values.argsort(descending=True)
    assert torch.equal(found.top_k(), order[:2])
    assert torch.equal(found.top_k(0.5), order[:4])
    assert torch.equal(found.top_k(8), order)


def test_contested_players_are_those_whose_interval_holds_the_cut():
    few, many = (estimate(saturating(), "montecarlo", permutations=p, k=3) for p in (3, 2000))
    assert len(many.contested) < len(few.contested)
    assert not few.certified
    assert "Not certified" in few.certificate


def test_wider_confidence_gives_wider_intervals_around_the_values():
    found = estimate(saturating(), "montecarlo", permutations=20)
    (low, high), (lower, higher) = found.interval(0.9), found.interval(0.99)
    assert (lower[1:] < low[1:]).all() and (high[1:] < higher[1:]).all()
    torch.testing.assert_close((low + high) / 2, found.values)


def test_exact_values_have_no_error():
    low, high = estimate(quadratic(), "exact").interval()
    assert torch.equal(low, high)


def test_a_table_has_one_row_per_player():
    pandas = pytest.importorskip("pandas")
    found = replace(estimate(quadratic(), "hybrid", **SHORT["hybrid"]), names=tuple("abcdefgh"), layers=("x",) * 8)
    table = found.to_pandas()
    assert isinstance(table, pandas.DataFrame)
    assert list(table.index) == list("abcdefgh")
    assert table["value"].to_list() == found.values.tolist()
    assert table.sort_values("rank").index[0] == "abcdefgh"[int(found.top_k(1)[0])]
    assert {"stderr", "count", "low", "high", "layer", "unbiased"} <= set(table.columns)


def test_without_pandas_the_table_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UserError, match=r"snv\[pandas\]"):
        estimate(quadratic(), "exact").to_pandas()


def test_a_game_that_gains_nothing_has_no_efficiency_ratio():
    assert math.isnan(replace(estimate(quadratic(), "exact"), v_all=1.0, v_none=1.0).efficiency_ratio)

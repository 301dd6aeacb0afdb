"""Each estimator does what it promises: unbiased, honest about its error, repeatable."""

from __future__ import annotations

import pytest
import torch
from trials import FROZEN, LEAN, centres, runs, within, worst_z

from snv.errors import UserError
from snv.shapley.estimate import ESTIMATORS, estimate
from snv.shapley.known_games import KNOWN_GAMES, Additive, examples, saturating, unanimity, voting
from snv.subnetworks.select import select

UNBIASED = {
    "montecarlo": ("montecarlo", {"permutations": 4}),
    "antithetic": ("montecarlo", {"permutations": 4, "antithetic": True}),
    "minibatch": ("montecarlo", {"permutations": 4, "minibatch": 3}),
    "truncated": ("truncated", {"permutations": 4, "floor": 0.1, "proceed": 0.3}),
    "hybrid": ("hybrid", {**LEAN, "fresh": 3}),
    "hybrid on minibatches": ("hybrid", {**LEAN, "fresh": 3, "minibatch": 3}),
}


@pytest.mark.parametrize("kind", UNBIASED)
@pytest.mark.parametrize("name", ["saturating", "voting", "examples"])
def test_unbiased_estimators_are_right_on_average(kind, name):
    (method, settings), make = UNBIASED[kind], KNOWN_GAMES[name]
    game = make()
    if ESTIMATORS[method].needs_gradient and not game.differentiable:
        pytest.skip("no gradient")
    if "minibatch" in settings and not game.samples_examples:
        pytest.skip("no examples to sample")
    seeds = 25 if method == "hybrid" else 120
    found = centres(runs(make, method, settings, seeds))
    assert worst_z(found, game.shapley) < within(game.n)


@pytest.mark.slow
@pytest.mark.parametrize("kind", UNBIASED)
@pytest.mark.parametrize("name", KNOWN_GAMES)
def test_unbiased_estimators_are_right_on_average_everywhere(kind, name):
    (method, settings), make = UNBIASED[kind], KNOWN_GAMES[name]
    game = make()
    if ESTIMATORS[method].needs_gradient and not game.differentiable:
        pytest.skip("no gradient")
    found = centres(runs(make, method, settings, 60 if method == "hybrid" else 300))
    assert worst_z(found, game.shapley) < within(game.n)


def coverage(make, method: str, settings: dict, seeds: int) -> float:
    """The share of 95 % intervals that hold the truth, over players that are not constant."""
    truth, hits = make().shapley, []
    for result in runs(make, method, settings, seeds):
        low, high = result.interval(0.95)
        live = high - low > 1e-9
        hits.append(((low <= truth) & (truth <= high))[live].double())
    return float(torch.cat(hits).mean())


@pytest.mark.parametrize(
    ("method", "settings", "seeds"),
    [
        ("montecarlo", {"permutations": 30}, 300),
        ("montecarlo", {"permutations": 60, "antithetic": True}, 150),
        ("truncated", {"permutations": 40, "proceed": 0.3, "floor": 0.03}, 70),
        pytest.param("truncated", {"permutations": 60, "proceed": 0.1, "floor": 0.05}, 400, marks=pytest.mark.slow),
        ("hybrid", {**LEAN, "fresh": 16}, 70),
        pytest.param("hybrid", {**LEAN, "fresh": 24}, 400, marks=pytest.mark.slow),
    ],
    ids=["montecarlo", "antithetic", "truncated", "truncated, often", "hybrid", "hybrid, often"],
)
def test_95_percent_intervals_cover_the_truth_in_93_to_97_percent_of_cases(method, settings, seeds):
    assert 0.93 <= coverage(saturating, method, settings, seeds) <= 0.97


def test_intervals_on_minibatches_never_cover_less_than_promised():
    """Examples are drawn without replacement, so the true error is smaller than the one reported."""
    assert coverage(examples, "montecarlo", {"permutations": 30, "minibatch": 3}, 20) >= 0.93


@pytest.mark.parametrize("method", [m for m in ESTIMATORS if m != "exact"])
def test_one_marginal_is_enough_where_all_are_alike(method):
    game = Additive(torch.tensor([3.0, -1.0, 0.5, 2.0, 0.0], dtype=torch.float64))
    settings = {"floor": 0.0} if method in ("truncated", "tmab") else {}
    torch.testing.assert_close(estimate(game, method, k=2, **settings).values, game.shapley)


@pytest.mark.parametrize("method", ESTIMATORS)
def test_the_seed_determines_every_bit_and_another_seed_changes_it(method):
    settings = {"k": 3, **(LEAN if method == "hybrid" else {})}
    first, again, other = (estimate(saturating(), method, seed=s, **settings) for s in (1, 1, 2))
    assert torch.equal(first.values, again.values)
    assert first.evaluations == again.evaluations
    assert method == "exact" or not torch.equal(first.values, other.values)


@pytest.mark.parametrize("method", ["tmab", "hybrid"])
def test_the_cut_that_is_certified_is_the_one_that_selection_makes(method):
    game = Additive(torch.tensor([0.1, 5.0, 0.2, 4.0, 1.0, 0.9, 0.8, 0.7], dtype=torch.float64))
    settings = {"floor": 0.0} if method == "tmab" else {"eps": 0.5, **LEAN}
    found = estimate(game, method, k=2, candidates=~FROZEN, **settings)
    assert found.certified
    assert "6 players that compete" in found.certificate
    assert sorted(found.top_k().tolist()) == [1, 3]
    chosen = select(found.values, torch.zeros(8, dtype=torch.long), 2, layer_share=0.0, free=FROZEN)
    assert chosen.nonzero()[:, 0].tolist() == sorted([*found.top_k().tolist(), 0, 2])


def test_candidates_are_refused_where_they_mean_nothing_or_are_too_few_or_others_than_before():
    with pytest.raises(UserError, match="montecarlo values all players alike"):
        estimate(unanimity(), "montecarlo", candidates=~FROZEN)
    with pytest.raises(UserError, match="from 1 to 6"):
        estimate(unanimity(), "tmab", k=7, candidates=~FROZEN)
    first = estimate(unanimity(), "tmab", k=2, permutations=3, candidates=~FROZEN)
    with pytest.raises(UserError, match="equal candidates"):
        estimate(unanimity(), "tmab", k=2, permutations=6, resume=first)


@pytest.mark.parametrize("method", ["gradient", "hybrid"])
def test_a_game_without_gradient_is_refused_with_what_works_instead(method):
    game = voting()
    with pytest.raises(UserError, match="montecarlo"):
        estimate(game, method)
    assert game.evaluations == 0


def test_an_unknown_estimator_or_setting_is_answered_with_the_known_ones():
    with pytest.raises(UserError, match="Did you mean 'gradient'"):
        estimate(saturating(), "gradeint")
    with pytest.raises(UserError, match="Did you mean 'permutations'"):
        estimate(saturating(), "montecarlo", permutation=3)


@pytest.mark.parametrize(
    ("method", "settings", "word"),
    [
        ("montecarlo", {"permutations": 0}, "permutations"),
        ("montecarlo", {"permutations": 3, "antithetic": True}, "even"),
        ("montecarlo", {"minibatch": 0}, "minibatch"),
        ("montecarlo", {"k": 2.5}, "share"),
        ("montecarlo", {"k": 9}, "from 1 to 8"),
        ("truncated", {"floor": 1.0}, "floor"),
        ("truncated", {"proceed": -0.1}, "proceed"),
        ("tmab", {"eps": 0.0}, "eps"),
        ("tmab", {"radii": "bernstein"}, "marginal_range"),
        ("gradient", {"draws": 5}, "pairs"),
        ("gradient", {"concentration": 0.0}, "concentration"),
        ("hybrid", {"rounds": 3}, "burn_in"),
        ("hybrid", {"misplaced": 0.0}, "misplaced"),
        ("exact", {"chunk": 0}, "chunk"),
    ],
)
def test_a_senseless_setting_is_refused_before_anything_is_spent(method, settings, word):
    game = saturating()
    with pytest.raises(UserError, match=word):
        estimate(game, method, **settings)
    assert game.evaluations == 0

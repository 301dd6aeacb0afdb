"""Each estimator does what it promises: unbiased, honest about its error, repeatable, and cheap where it says so."""

from __future__ import annotations

import warnings

import pytest
import torch

from snv.errors import UserError
from snv.seeding import generator
from snv.shapley.agreement import spearman
from snv.shapley.bandit import TMABSettings, as_printed, contest
from snv.shapley.budget import Budget
from snv.shapley.estimate import ESTIMATORS, estimate, forecast
from snv.shapley.hybrid import coalitions_by_size
from snv.shapley.intervals import normal_quantile
from snv.shapley.known_games import (
    KNOWN_GAMES,
    Additive,
    MeanGame,
    WeightGame,
    examples,
    quadratic,
    saturating,
    unanimity,
    voting,
)
from snv.shapley.permutation import permutation_values
from snv.subnetworks.select import select

LEAN = {"draws": 8, "pilot_coalitions": 8, "burn_in": 2, "rounds": 2}
UNBIASED = {
    "montecarlo": ("montecarlo", {"permutations": 4}),
    "antithetic": ("montecarlo", {"permutations": 4, "antithetic": True}),
    "minibatch": ("montecarlo", {"permutations": 4, "minibatch": 3}),
    "truncated": ("truncated", {"permutations": 4, "floor": 0.1, "proceed": 0.3}),
    "hybrid": ("hybrid", {**LEAN, "fresh": 3}),
    "hybrid on minibatches": ("hybrid", {**LEAN, "fresh": 3, "minibatch": 3}),
}
DIFFERENTIABLE = [name for name, make in KNOWN_GAMES.items() if make().differentiable]


def runs(make, method: str, settings: dict, seeds: int) -> list:
    game = make()
    return [estimate(game, method, seed=seed, **settings) for seed in range(seeds)]


def centres(results: list) -> torch.Tensor:
    return torch.stack([r.values if r.unbiased is None else r.unbiased for r in results])


def worst_z(found: torch.Tensor, truth: torch.Tensor) -> float:
    """The largest |z| of the mean over repeats; a player without spread must be right to rounding."""
    error, spread = found.mean(0) - truth, found.std(0) / len(found) ** 0.5
    fixed = spread < 1e-12
    torch.testing.assert_close(found.mean(0)[fixed], truth[fixed])
    return float((error / spread)[~fixed].abs().max()) if not fixed.all() else 0.0


def within(n: int) -> float:
    """The bound that the largest of n standard normal |z| exceeds in one of 400 cases: 3 for a single player."""
    return normal_quantile(1 - 0.00125 / n)


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


@pytest.mark.parametrize("name", KNOWN_GAMES)
def test_batches_of_prefixes_equal_one_coalition_at_a_time(name):
    game = KNOWN_GAMES[name]()
    plain = permutation_values(game, n_permutations=5, seed=3)
    for chunk in (1, 3, 256):
        torch.testing.assert_close(estimate(game, "montecarlo", permutations=5, chunk=chunk, seed=3).values, plain)


def test_antithetic_orders_and_gradients_are_exact_for_pairwise_interactions():
    truth = quadratic().shapley
    torch.testing.assert_close(estimate(quadratic(), "montecarlo", permutations=2, antithetic=True).values, truth)
    for masks in ("beta", "binary", "diagonal"):
        torch.testing.assert_close(estimate(quadratic(), "gradient", draws=2, masks=masks).values, truth)


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


# truncation


def wide() -> WeightGame:
    """Forty players of whom half are enough: most of a removal order has nothing left to lose."""
    return WeightGame([1 + i % 5 for i in range(40)], lambda w: torch.sigmoid((w - 80) / 6), smooth=True)


def test_removal_orders_that_stop_early_cost_less_and_roulette_keeps_them_unbiased():
    game, whole = wide(), forecast(wide(), "truncated", permutations=200)
    cut = estimate(game, "truncated", permutations=200, floor=0.05, proceed=0.0, chunk=4)
    assert cut.evaluations < 0.75 * whole
    missing = cut.efficiency_residual
    assert 0 < missing <= 0.05 * (cut.v_all - cut.v_none)
    fair = estimate(wide(), "truncated", permutations=200, floor=0.05, proceed=0.3, chunk=4)
    assert cut.evaluations < fair.evaluations < whole
    assert float(((fair.values - game.shapley) / fair.stderr).abs().max()) < within(40)


def test_truncation_does_not_depend_on_the_chunk():
    found = [estimate(wide(), "truncated", permutations=5, chunk=chunk).values for chunk in (1, 7, 64)]
    torch.testing.assert_close(found[0], found[1])
    torch.testing.assert_close(found[0], found[2])


# bandit


def violation(result, truth: torch.Tensor) -> float:
    """By how much the best rejected player exceeds the worst chosen one."""
    chosen = torch.zeros(len(truth), dtype=torch.bool)
    chosen[result.top_k()] = True
    return float(truth[~chosen].max() - truth[chosen].min())


@pytest.mark.parametrize("name", ["saturating", "quadratic"])
def test_a_certified_top_k_breaks_its_word_in_at_most_5_percent_of_runs(name):
    found = runs(KNOWN_GAMES[name], "tmab", {"k": 3, "eps": 0.5, "burn_in": 20}, 20)
    truth = KNOWN_GAMES[name]().shapley
    assert all(result.certified and result.stopped == "certified" for result in found)
    assert sum(violation(result, truth) > result.eps for result in found) <= 0.05 * len(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", KNOWN_GAMES)
def test_certificates_hold_on_every_game(name):
    found = runs(KNOWN_GAMES[name], "tmab", {"k": 3, "eps": 0.5, "permutations": 400}, 60)
    truth = KNOWN_GAMES[name]().shapley
    assert sum(violation(result, truth) > result.eps for result in found) <= 0.05 * len(found)


def test_bernstein_radii_certify_too_and_say_so():
    game = Additive(torch.tensor([1.0, 0.9, 0.0, 0.0], dtype=torch.float64))
    settings = {"k": 2, "eps": 1.0, "radii": "bernstein", "marginal_range": 1.0, "floor": 0.0, "permutations": 400}
    found = estimate(game, "tmab", **settings)
    assert found.certified
    assert "Bernstein" in found.certificate
    assert found.eps >= 0
    assert found.top_k().tolist() == [0, 1]


def test_a_cap_is_never_called_convergence():
    found = estimate(KNOWN_GAMES["majority"](), "tmab", k=3, permutations=40)
    assert not found.certified
    assert found.stopped == "cap of 40 permutations reached"
    assert found.certificate.startswith("Not certified")


def test_tails_counted_as_zero_are_never_certified():
    found = estimate(saturating(), "tmab", k=3, proceed=0.0, eps=1.0)
    assert not found.certified
    assert "bias" in found.certificate


def test_players_that_are_decided_cost_nothing_more():
    found = estimate(unanimity(), "tmab", k=3, eps=0.3, permutations=600)
    assert found.counts.min() < found.counts.max()
    assert found.counts.min() >= 30


def test_the_contest_needs_both_sides_of_the_cut_to_be_apart():
    values, radius = (torch.tensor(x, dtype=torch.float64) for x in ([3.0, 2.0, 1.0, 0.0], [0.1, 0.6, 0.6, 0.1]))
    where = contest(torch.tensor([True, True, False, False]), values, radius, eps=0.1)
    assert where.gap == pytest.approx(0.2)
    assert where.contested.tolist() == [False, True, True, False]


FROZEN = torch.tensor([True, False, True, False, False, False, False, False])


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


def test_players_that_do_not_compete_cost_nothing_after_the_burn_in():
    found = estimate(unanimity(), "tmab", k=2, eps=0.1, permutations=60, burn_in=10, candidates=~FROZEN)
    assert found.counts[FROZEN].tolist() == [10, 10]
    assert int(found.counts.max()) > 10
    assert not FROZEN[found.contested].any()


def test_candidates_are_refused_where_they_mean_nothing_or_are_too_few_or_others_than_before():
    with pytest.raises(UserError, match="montecarlo values all players alike"):
        estimate(unanimity(), "montecarlo", candidates=~FROZEN)
    with pytest.raises(UserError, match="from 1 to 6"):
        estimate(unanimity(), "tmab", k=7, candidates=~FROZEN)
    first = estimate(unanimity(), "tmab", k=2, permutations=3, candidates=~FROZEN)
    with pytest.raises(UserError, match="equal candidates"):
        estimate(unanimity(), "tmab", k=2, permutations=6, resume=first)


@pytest.mark.parametrize("name", ["saturating", "random"])
def test_the_papers_rule_never_stops_by_itself(name):
    with pytest.warns(UserWarning, match="Algorithm 1 as printed"):
        found = estimate(KNOWN_GAMES[name](), "tmab", preset="paper", k=3, permutations=150, floor=-5.0)
    assert found.stopped == "cap of 150 permutations reached"
    assert not found.certified
    assert len(found.contested) >= 1


def test_the_papers_rule_takes_two_zero_marginals_for_certainty():
    with pytest.warns(UserWarning, match="Algorithm 1 as printed"):
        found = estimate(voting(), "tmab", preset="paper", k=3, permutations=150, floor=-5.0, burn_in=2)
    assert found.stopped == "active set empty"
    assert found.counts.min() == 2
    assert 7 not in found.top_k()  # the strongest voter, dropped after two orders in which it did not decide
    assert not found.certified


def test_the_papers_truncation_saves_nothing_and_is_biased():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = estimate(saturating(), "tmab", preset="paper", k=3, permutations=100, floor=0.5)
    assert found.evaluations >= 100 * saturating().n
    assert float(((found.values - saturating().shapley) / found.stderr)[1:].abs().max()) > 5


def test_the_papers_rule_samples_everyone_until_the_burn_in_is_over():
    found = [as_printed(voting(), TMABSettings(3, 6, -5.0, burn_in=b, preset="paper")) for b in (2, 6)]
    assert [int(result.counts.min()) for result in found] == [2, 6]


def test_a_payoff_that_cannot_exceed_the_papers_floor_is_refused_at_once():
    game = Additive(torch.tensor([-3.0, -1.0, 0.5], dtype=torch.float64))  # V(all) = −3.5, like a loss
    with pytest.raises(UserError, match=r"V\(all\) = -3.5 .* floor = 0.05"):
        as_printed(game, TMABSettings(preset="paper", k=1))
    assert game.evaluations <= 2


def test_values_of_which_every_marginal_was_skipped_are_refused():
    everyone = WeightGame([1, 1, 1, 1], lambda w: (w >= 4).double(), smooth=False)  # V(S) = 0 until the last one joins
    with pytest.raises(UserError, match="skipped every marginal of 3 permutations"):
        as_printed(everyone, TMABSettings(preset="paper", k=1, permutations=3))


def test_a_player_whose_marginals_were_all_skipped_has_no_value_and_no_place():
    found = as_printed(wide(), TMABSettings(preset="paper", k=5, permutations=1, floor=0.5))
    assert found.values.isnan().any()
    assert not found.values[found.top_k()].isnan().any()


# gradient


@pytest.mark.parametrize("masks", ["beta", "binary", "diagonal"])
def test_twenty_draws_are_twenty_gradients(masks):
    game = saturating()
    found = estimate(game, "gradient", draws=20, masks=masks)
    assert game.evaluations == found.evaluations == 2 + 20 * 3


def test_binary_masks_are_unbiased_where_payoffs_are_linear_in_each_gate():
    found = centres(runs(unanimity, "gradient", {"draws": 8, "masks": "binary"}, 100))
    assert worst_z(found, unanimity().shapley) < within(8)


@pytest.mark.parametrize("masks", ["beta", "binary", "diagonal"])
def test_gradients_rank_like_the_values_though_they_are_biased(masks):
    found = estimate(wide(), "gradient", draws=200, masks=masks)
    assert spearman(found.values, wide().shapley) > 0.95
    assert masks != "diagonal" or found.efficiency_ratio == pytest.approx(1, abs=1e-6)


def test_a_minibatch_gradient_costs_its_share():
    found = estimate(examples(), "gradient", draws=20, minibatch=3)
    assert found.evaluations == pytest.approx(2 + 20 * 3 * 3 / 12)


def test_gradients_in_chunks_of_any_size_agree():
    found = [estimate(saturating(), "gradient", draws=20, chunk=chunk).values for chunk in (2, 6, 64)]
    torch.testing.assert_close(found[0], found[1])
    torch.testing.assert_close(found[0], found[2])


@pytest.mark.parametrize("limit", [8, 21])
def test_a_budget_below_one_chunk_pays_for_as_many_pairs_as_it_can(limit):
    settings = {"draws": 64, "minibatch": None, "chunk": 64}
    found = estimate(examples(), "gradient", budget=Budget(max_evaluations=limit), **settings)
    assert found.counts.tolist() == [(limit - 2) // 6] * 8
    assert not found.values.isnan().any()
    assert found.stopped == "max_evaluations reached"


@pytest.mark.parametrize("method", ["gradient", "hybrid"])
def test_a_game_without_gradient_is_refused_with_what_works_instead(method):
    game = voting()
    with pytest.raises(UserError, match="montecarlo"):
        estimate(game, method)
    assert game.evaluations == 0


# hybrid


def test_coalitions_by_size_are_uniform_over_sizes():
    sizes = torch.cat([coalitions_by_size(4, 2, generator(seed, "s")).sum(1) for seed in range(2000)])
    share = torch.bincount(sizes, minlength=5) / len(sizes)
    torch.testing.assert_close(share, torch.full((5,), 0.2), atol=0.02, rtol=0)


def test_hybrid_ranks_at_least_as_well_as_the_gradient_it_starts_from():
    game = wide()
    found = estimate(game, "hybrid", k=10, draws=16, rounds=40, max_band=40, width=100.0)
    start = estimate(game, "gradient", k=10, draws=16)
    error = ((found.values - game.shapley) ** 2).mean()
    assert error < 0.5 * ((start.values - game.shapley) ** 2).mean()


def test_hybrid_flips_only_the_band_and_says_so():
    found = estimate(wide(), "hybrid", k=10, max_band=6, **LEAN, fresh=4)
    flipped = ~found.unbiased.isnan()
    assert int(flipped.sum()) == 6
    assert torch.equal(flipped, found.counts > 0)
    assert torch.equal(flipped, ~found.interval()[0].isnan())
    assert "The other 34 players" in found.certificate
    assert not found.values.isnan().any()


def test_hybrid_certifies_what_it_flipped_and_keeps_its_word():
    found = runs(
        unanimity, "hybrid", {"k": 3, "eps": 1.0, "draws": 8, "pilot_coalitions": 8, "burn_in": 12, "fresh": 4}, 6
    )
    assert all(result.certified for result in found)
    assert all(violation(result, unanimity().shapley) <= result.eps for result in found)


def test_hybrid_calibrates_layer_by_layer_when_layers_are_known():
    game = wide()
    game.layers = tuple(f"layer{i // 20}" for i in range(40))
    game.names = tuple(f"layer{i // 20}[{i % 20}]" for i in range(40))
    found = estimate(game, "hybrid", k=10, **LEAN, fresh=4)
    assert found.layers == game.layers
    assert found.names[21] == "layer1[1]"
    assert len(set(found.state["surrogate"]["tau2"].tolist())) == 2


def test_control_variates_shrink_the_error_of_the_flips():
    plain = MeanGame([wide()])
    with_gradient = estimate(plain, "hybrid", k=10, **LEAN, fresh=24)
    state = with_gradient.state["surrogate"]
    assert state["rho2"] > 0.2
    assert (state["slope"] > 0).all()


# names and settings


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


def test_exact_refuses_more_players_than_it_can_enumerate():
    with pytest.raises(UserError, match="up to 16 players"):
        estimate(wide(), "exact")

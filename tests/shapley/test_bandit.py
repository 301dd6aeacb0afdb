"""The bandit samples only who is contested, and says what it may say; the paper's own rules do neither."""

from __future__ import annotations

import warnings

import pytest
import torch
from trials import FROZEN, runs, violation, wide

from snv.errors import UserError
from snv.shapley.bandit import TMABSettings, as_printed, contest
from snv.shapley.estimate import estimate
from snv.shapley.known_games import KNOWN_GAMES, Additive, WeightGame, airport, saturating, unanimity, voting


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


def test_a_contest_that_the_last_permitted_permutation_decides_is_certified():
    settings = {"k": 2, "eps": 2.0, "burn_in": 5, "seed": 3}
    free = estimate(airport(), "tmab", **settings)
    found = estimate(airport(), "tmab", permutations=int(free.counts.max()), **settings)
    assert free.stopped == found.stopped == "certified"
    assert torch.equal(found.values, free.values)


def test_tails_counted_as_zero_are_never_certified():
    found = estimate(saturating(), "tmab", k=3, proceed=0.0, eps=1.0)
    assert not found.certified
    assert "bias" in found.certificate


def test_players_that_are_decided_cost_nothing_more():
    found = estimate(unanimity(), "tmab", k=3, eps=0.3, permutations=600)
    assert found.counts.min() < found.counts.max()
    assert found.counts.min() >= 30


def test_players_that_do_not_compete_cost_nothing_after_the_burn_in():
    found = estimate(unanimity(), "tmab", k=2, eps=0.1, permutations=60, burn_in=10, candidates=~FROZEN)
    assert found.counts[FROZEN].tolist() == [10, 10]
    assert int(found.counts.max()) > 10
    assert not FROZEN[found.contested].any()


def test_the_contest_needs_both_sides_of_the_cut_to_be_apart():
    values, radius = (torch.tensor(x, dtype=torch.float64) for x in ([3.0, 2.0, 1.0, 0.0], [0.1, 0.6, 0.6, 0.1]))
    where = contest(torch.tensor([True, True, False, False]), values, radius, eps=0.1)
    assert where.gap == pytest.approx(0.2)
    assert where.contested.tolist() == [False, True, True, False]


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

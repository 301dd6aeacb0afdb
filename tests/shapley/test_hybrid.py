"""Exact flips near the cut: unbiased where it matters, and better than the gradient they start from."""

from __future__ import annotations

import torch
from trials import LEAN, runs, violation, wide

from snv.seeding import generator
from snv.shapley.estimate import estimate
from snv.shapley.hybrid import coalitions_by_size
from snv.shapley.known_games import MeanGame, unanimity


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


def test_a_run_that_was_decided_draws_no_further_round_when_continued():
    settings = {"k": 3, "eps": 1.0, "draws": 8, "pilot_coalitions": 8, "burn_in": 12, "fresh": 4}
    found = estimate(unanimity(), "hybrid", **settings)
    again = estimate(unanimity(), "hybrid", resume=found, **settings)
    assert found.stopped == again.stopped == "certified"
    assert again.evaluations == found.evaluations
    assert torch.equal(again.values, found.values)


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

"""Gradients at random gates rank at a cost that does not depend on the number of players."""

from __future__ import annotations

import pytest
import torch
from trials import centres, runs, wide, within, worst_z

from snv.shapley.agreement import spearman
from snv.shapley.budget import Budget
from snv.shapley.estimate import estimate
from snv.shapley.known_games import examples, quadratic, saturating, unanimity


@pytest.mark.parametrize("masks", ["beta", "binary", "diagonal"])
def test_gradients_are_exact_for_pairwise_interactions(masks):
    torch.testing.assert_close(estimate(quadratic(), "gradient", draws=2, masks=masks).values, quadratic().shapley)


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

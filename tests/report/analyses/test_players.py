from __future__ import annotations

import torch

from snv.report.analyses.players import Among, Timed
from snv.shapley import Quadratic, estimate


def a_game() -> Quadratic:
    rng = torch.Generator().manual_seed(0)
    pairs = torch.randn(6, 6, generator=rng, dtype=torch.float64)
    return Quadratic(torch.randn(6, generator=rng, dtype=torch.float64), pairs)


def test_a_timed_game_has_the_same_values_at_the_same_cost():
    game = Timed(a_game())
    plain, timed = (estimate(one, "montecarlo", permutations=6) for one in (a_game(), game))
    assert torch.equal(plain.values, timed.values) and plain.evaluations == timed.evaluations
    assert game.seconds > 0


def test_gradients_and_flips_pass_through_a_timed_game():
    for method in ("gradient", "hybrid"):
        plain, timed = estimate(a_game(), method, k=2), estimate(Timed(a_game()), method, k=2)
        assert torch.equal(plain.values, timed.values) and plain.evaluations == timed.evaluations


def test_among_some_players_all_others_take_part():
    game, some = a_game(), torch.tensor([1, 4])
    few = Among(game, some)
    whole = torch.ones(4, 6, dtype=torch.bool)
    coalitions = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=torch.bool)
    whole[:, some] = coalitions
    assert torch.equal(few.values(coalitions), game.values(whole))
    found = estimate(few, "exact", k=1)
    torch.testing.assert_close(found.values.sum(), game.values(whole[3:])[0] - game.values(whole[:1])[0])

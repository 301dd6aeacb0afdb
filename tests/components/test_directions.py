"""Directions of classes are unit vectors, nearly at right angles, also across tasks."""

from __future__ import annotations

import pytest
import torch

from snv.components.directions import WIDEST, new_directions, require_room
from snv.errors import UserError


def grown(dimension: int, per_task: int, n_tasks: int) -> torch.Tensor:
    found = torch.zeros(0, dimension)
    for t in range(n_tasks):
        fresh = new_directions(found, per_task, torch.Generator().manual_seed(t))
        assert fresh.shape == (per_task, dimension)
        found = torch.cat([found, fresh])
    return found


def largest_cosine(vectors: torch.Tensor) -> float:
    cosines = vectors.double() @ vectors.double().T
    return float((cosines - torch.diag(cosines.diagonal())).abs().max())


@pytest.mark.parametrize(("per_task", "n_tasks"), [(40, 10), (80, 5), (10, 40)])
def test_no_two_directions_are_nearer_than_the_bound_however_many_tasks_there_were(per_task, n_tasks):
    vectors = grown(256, per_task, n_tasks)
    assert largest_cosine(vectors) <= WIDEST + 1e-4
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(len(vectors)), atol=1e-6, rtol=0)


def test_while_there_is_room_they_are_at_right_angles():
    assert largest_cosine(grown(256, 10, 10)) < 1e-6
    assert largest_cosine(grown(12, 4, 3)) < 1e-6


def test_the_same_generator_gives_the_same_directions():
    assert torch.equal(grown(256, 50, 6), grown(256, 50, 6))


def test_more_than_fit_are_refused_with_advice():
    with pytest.raises(UserError, match=r"8 directions do not fit into 4 dimensions .* Raise learner.dimension"):
        grown(4, 4, 3)


def test_what_would_fail_in_a_late_task_is_refused_at_once():
    def rng(t: int) -> torch.Generator:
        return torch.Generator().manual_seed(t)

    require_room(256, 40, 8, rng)
    require_room(12, 4, 3, rng)
    with pytest.raises(UserError, match="do not fit into 12 dimensions"):
        require_room(12, 4, 8, rng)

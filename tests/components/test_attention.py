"""Gates of tasks, checked against their formulas written out gate by gate."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch

from snv.components.attention import LARGEST, TaskGates, compensation, new_use, settled_gates, soft_gates, steepness


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def some_gates(hard: bool = True, sizes: tuple[int, ...] = (3, 5), start: float = 0.0) -> TaskGates:
    return TaskGates(list(sizes), 700.0, hard, start, seed=0, device=torch.device("cpu"))


def test_gates_are_flat_at_the_first_step_of_an_epoch_and_steepest_at_its_last():
    s = [steepness(step, 110, 700.0) for step in range(110)]
    assert s[0] == 1 / 700
    assert s[-1] == pytest.approx(700, rel=1e-12)
    assert all(b - a == pytest.approx((700 - 1 / 700) / 109) for a, b in pairwise(s))
    assert steepness(0, 1, 700.0) == 1 / 700


@pytest.mark.parametrize("s", [1 / 700, 0.5, 3.0, 12.0])
def test_the_gradient_of_a_gate_is_the_compensated_one_of_the_formula(s):
    e = (3 * torch.randn(40, generator=rng())).double().requires_grad_()
    slope = torch.randn(40, generator=rng(1)).double()
    (soft_gates(e, s, 700.0) * slope).sum().backward()
    for value, pull, found in zip(e.tolist(), slope.tolist(), e.grad.tolist(), strict=True):
        g = 1 / (1 + math.exp(-s * value))
        inside = max(-50.0, min(50.0, s * value))
        expected = pull * s * g * (1 - g) * 700 / s * (math.cosh(inside) + 1) / (math.cosh(value) + 1)
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-12)


def test_while_it_is_not_clipped_the_compensated_gradient_does_not_depend_on_how_steep_a_gate_is():
    e = torch.linspace(-6, 6, 25, dtype=torch.float64)
    for s in (0.01, 1.0, 4.0):
        own = e.clone().requires_grad_()
        soft_gates(own, s, 700.0).sum().backward()
        sigma = torch.sigmoid(e)
        torch.testing.assert_close(own.grad, 700 * sigma * (1 - sigma), rtol=1e-6, atol=1e-9)


def test_even_the_steepest_gates_have_finite_gradients():
    e = torch.tensor([-6.0, -0.05, 0.0, 0.05, 6.0], requires_grad=True)
    assert compensation(e.detach(), 700.0, 700.0).isfinite().all()
    soft_gates(e, 700.0, 700.0).sum().backward()
    assert e.grad.isfinite().all()
    assert e.grad[2] > 0  # one that has not decided learns on


def test_settled_gates_are_those_of_the_sign_or_the_steepest():
    e = torch.tensor([-1.0, -1e-4, 0.0, 1e-4, 1.0])
    assert settled_gates(e, 700.0, hard=True).tolist() == [0, 0, 0, 1, 1]
    torch.testing.assert_close(settled_gates(e, 700.0, hard=False), torch.sigmoid(700 * e))


def test_new_use_is_the_share_taken_of_what_is_free():
    gates, used = torch.tensor([1.0, 0.5, 1.0, 0.0]), torch.tensor([1.0, 0.0, 0.5, 0.0])
    assert float(new_use(gates, used)) == pytest.approx((0.5 + 0.5) / (1 + 0.5 + 1))
    assert float(new_use(gates, torch.ones(4))) == 0


@pytest.mark.parametrize("hard", [True, False])
def test_what_is_used_is_the_largest_gate_of_any_earlier_task_and_never_shrinks(hard):
    gates = some_gates(hard)
    assert not gates.used().any()
    before = gates.used()
    for t in range(3):
        now = gates.settled(t)
        gates.keep()
        assert torch.equal(gates.used(), torch.maximum(before, now))
        before = gates.used()


def test_gates_of_a_task_are_as_they_start_before_it_and_as_they_ended_after_it():
    gates = some_gates()
    foretold = gates.settled(1)
    gates.keep()
    assert torch.equal(gates.settled(1), foretold)
    with torch.no_grad():
        gates.embedding.neg_()
    assert torch.equal(gates.settled(1), 1 - foretold)
    gates.keep()
    assert torch.equal(gates.settled(1), 1 - foretold)
    assert not torch.equal(gates.settled(2), foretold)


def test_embeddings_stay_within_bounds():
    gates = some_gates()
    with torch.no_grad():
        gates.embedding.mul_(100)
    gates.clip()
    assert gates.embedding.abs().max() == LARGEST


def test_saved_and_loaded_they_are_the_same():
    gates, other = some_gates(), some_gates()
    gates.keep()
    with torch.no_grad():
        gates.embedding.add_(0.3)
    other.load_state_dict(gates.state_dict())
    assert all(torch.equal(gates.settled(t), other.settled(t)) for t in range(3))
    assert [part.shape[0] for part in other.by_layer(other.used())] == [3, 5]


@pytest.mark.parametrize(("start", "share"), [(0.0, 0.5), (1.0, 0.841), (-1.0, 0.159)])
def test_the_start_says_how_many_gates_are_open_at_first_in_every_task(start, share):
    gates = some_gates(sizes=(4000, 4000), start=start)
    gates.keep()
    for t in range(3):
        assert float(gates.settled(t).mean()) == pytest.approx(share, abs=0.02)

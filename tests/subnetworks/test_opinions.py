"""Opinions joined: what knows something is heard, what knows nothing is not."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from snv.subnetworks.opinions import opinion_weights, weighed


@pytest.fixture
def said():
    """400 labels of five classes, an opinion that knows them and is too sure of itself, and one that knows nothing."""
    rng = torch.Generator().manual_seed(0)
    labels = torch.randint(5, (400,), generator=rng)
    good = 4 * (torch.randn(400, 5, generator=rng) + 2 * F.one_hot(labels, 5))
    return labels, good.log_softmax(1), (3 * torch.randn(400, 5, generator=rng)).log_softmax(1)


def loss(weights, opinions, labels):
    return float(F.nll_loss(weighed(weights, opinions), labels) + weights.double().square().sum() / (2 * len(labels)))


def test_an_opinion_that_knows_nothing_gets_no_weight(said):
    labels, good, bad = said
    weights = opinion_weights([good, bad], labels)
    assert weights[0] > 0.2
    assert weights[1] < 0.02


def test_no_other_weights_make_the_labels_more_likely(said):
    labels, good, bad = said
    half = (0.5 * good + 0.5 * bad).log_softmax(1)
    weights = opinion_weights([good, half], labels)
    best = loss(weights, [good, half], labels)
    for move in ([0.02, 0], [-0.02, 0], [0, 0.02], [0, -0.02], [0.02, -0.02]):
        other = (weights + torch.tensor(move)).clamp(min=0)
        assert loss(other, [good, half], labels) >= best - 1e-9


def test_one_opinion_alone_is_held_back_by_its_temperature(said):
    labels, good, _ = said
    (weight,) = opinion_weights([good], labels)
    temperatures = torch.linspace(0.05, 2, 400)
    losses = torch.stack([F.nll_loss((w * good).log_softmax(1), labels) for w in temperatures])
    assert float(weight) == pytest.approx(float(temperatures[losses.argmin()]), abs=0.01)


def test_weights_stay_finite_where_every_image_is_answered_right():
    labels = torch.arange(6) % 3
    certain = (20.0 * F.one_hot(labels, 3)).log_softmax(1)
    weights = opinion_weights([certain, certain], labels)
    assert torch.isfinite(weights).all()
    assert float(weights.max()) < 10


def test_both_opinions_together_are_better_than_the_better_one():
    rng = torch.Generator().manual_seed(1)
    labels = torch.randint(4, (2000,), generator=rng)
    one, two = ((torch.randn(2000, 4, generator=rng) + 1.2 * F.one_hot(labels, 4)).log_softmax(1) for _ in range(2))
    weights = opinion_weights([one, two], labels)
    right = [float((z.argmax(1) == labels).double().mean()) for z in (one, two, weighed(weights, [one, two]))]
    assert right[2] > max(right[:2]) + 0.03

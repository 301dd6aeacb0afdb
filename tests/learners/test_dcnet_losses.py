"""The equations of DCNet against the same written out in loops over images and classes."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from snv.learners.dcnet_losses import (
    aggregation,
    contrastive_loss,
    contrastive_temperature,
    orthogonal_loss,
    orthogonal_temperature,
    turned,
)


def sphere(n: int, d: int = 7, seed: int = 0) -> torch.Tensor:
    return F.normalize(torch.randn(n, d, generator=torch.Generator().manual_seed(seed)), dim=1)


def dot(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("tau", [0.05, 0.1])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_orthogonal_loss_is_the_printed_formula(tau, smoothing):
    f, b, labels = sphere(6).tolist(), sphere(4, seed=1).tolist(), [0, 1, 2, 3, 3, 0]
    total = 0.0
    for image, label in zip(f, labels, strict=True):
        e = [math.exp(dot(image, direction) / tau) for direction in b]
        log_p = [math.log(x / sum(e)) for x in e]
        total -= (1 - smoothing) * log_p[label] + smoothing * sum(log_p) / 4
    ours = orthogonal_loss(sphere(6), sphere(4, seed=1), torch.tensor(labels), tau, smoothing)
    assert ours.item() == pytest.approx(tau / 0.07 * total / 6, rel=1e-5)


@pytest.mark.parametrize("tau", [0.05, 0.1])
def test_the_contrastive_loss_is_the_printed_formula_over_images_that_have_a_companion(tau):
    f, labels = sphere(7).tolist(), [0, 1, 0, 2, 1, 0, 3]
    means = []
    for i in range(7):
        others = [m for m in range(7) if m != i]
        whole = sum(math.exp(dot(f[i], f[m]) / tau) for m in others)
        own = [math.log(math.exp(dot(f[i], f[j]) / tau) / whole) for j in others if labels[j] == labels[i]]
        if own:
            means.append(sum(own) / len(own))
    assert len(means) == 5
    ours = contrastive_loss(sphere(7), torch.tensor(labels), tau)
    assert ours.item() == pytest.approx(-sum(means) / len(means), rel=1e-5)


def test_its_gradient_is_finite_and_is_nothing_where_no_image_has_a_companion():
    for labels in (torch.arange(5), torch.tensor([0, 0, 1, 2, 3])):
        f = sphere(5).requires_grad_()
        loss = contrastive_loss(f, labels, 0.05)
        loss.backward()
        assert f.grad.isfinite().all()
        assert (loss == 0) == (f.grad == 0).all() == (len(labels.unique()) == 5)


def test_aggregation_is_the_mean_over_classes_of_the_mean_cosine_whatever_their_sizes():
    f, b, labels = sphere(6).tolist(), sphere(3, seed=1).tolist(), [0, 0, 0, 1, 2, 2]
    by_class = []
    for c in range(3):
        own = [dot(image, b[c]) for image, label in zip(f, labels, strict=True) if label == c]
        by_class.append(abs(sum(own) / len(own)))
    ours = aggregation(sphere(6), sphere(3, seed=1), torch.tensor(labels))
    assert ours.item() == pytest.approx(sum(by_class) / 3, rel=1e-5)


def test_images_at_their_directions_are_aggregated_completely():
    assert aggregation(sphere(4), sphere(4), torch.arange(4)).item() == pytest.approx(1)


def test_the_first_temperature_falls_with_the_room_that_is_left_to_a_half():
    assert orthogonal_temperature(torch.zeros(8)) == 0.1
    assert orthogonal_temperature(torch.tensor([1.0, 0.0, 0.0, 0.0])) == pytest.approx(0.075)
    assert orthogonal_temperature(torch.ones(8)) == 0.05


def test_the_second_temperature_is_lower_for_a_task_that_is_aggregated_less():
    assert contrastive_temperature([0.3]) == 0.1
    assert contrastive_temperature([0.8, 0.6, 0.6]) == pytest.approx(0.1 * 0.6 / 0.7)
    assert contrastive_temperature([0.8, 0.9]) == pytest.approx(0.1 * 0.9 / 0.8)
    assert contrastive_temperature([0.8, 0.1]) == 0.05


def test_turned_images_are_other_classes():
    images, labels = torch.arange(18.0).view(2, 1, 3, 3), torch.tensor([0, 2])
    many, classes = turned(images, labels, 3)
    assert classes.tolist() == [0, 2, 3, 5, 6, 8, 9, 11]
    assert torch.equal(many[:2], images)
    assert torch.equal(many[4:6], images.flip(2).flip(3))
    assert torch.equal(many[2, 0, :, 0], images[0, 0, 0].flip(0))

"""Gaussian classes as sums: exact in any order, exactly undone, and the textbook's discriminant."""

from __future__ import annotations

import pytest
import torch

from snv.components.gaussians import ClassSums, discriminant, joined, on_grid, packed, unpacked


@pytest.fixture
def drawn():
    """300 images of three classes in five features that hang together."""
    rng = torch.Generator().manual_seed(0)
    labels = torch.randint(3, (300,), generator=rng)
    mixing = torch.randn(5, 5, generator=rng)
    features = torch.randn(300, 5, generator=rng) @ mixing + 2 * torch.randn(3, 5, generator=rng)[labels]
    return features, labels


def sums_of(features, labels, k=3):
    sums = ClassSums.blank(k, features.shape[1])
    sums.add(features, labels)
    return sums


def test_sums_are_the_same_to_the_last_bit_in_any_order_and_in_any_batches(drawn):
    features, labels = drawn
    whole = sums_of(features, labels)
    parts = ClassSums.blank(3, 5)
    for rows in torch.randperm(300, generator=torch.Generator().manual_seed(3)).split(7):
        parts.add(features[rows], labels[rows])
    assert all(torch.equal(a, b) for a, b in zip(vars(whole).values(), vars(parts).values(), strict=True))


def test_what_a_task_added_can_be_taken_away_exactly(drawn):
    features, labels = drawn
    first, second = sums_of(features[:100], labels[:100]), sums_of(features[100:], labels[100:])
    both = joined([first, second])
    assert torch.equal(both.products - second.products, first.products)


def test_scores_are_those_of_the_inverse_written_out(drawn):
    features, labels = drawn
    x = on_grid(features)
    means = torch.stack([x[labels == c].mean(0) for c in range(3)])
    spread = x - means[labels]
    within = spread.T @ spread / 300
    shrunk = 0.9 * within + (0.1 * within.trace() / 5) * torch.eye(5, dtype=torch.float64)
    precision = torch.linalg.inv(shrunk)
    expected = features.double() @ precision @ means.T - 0.5 * (means @ precision * means).sum(1)
    torch.testing.assert_close(
        discriminant(sums_of(features, labels), 0.1)(features), expected.float(), atol=1e-4, rtol=1e-4
    )


def test_a_feature_that_is_always_the_same_and_a_class_without_images_break_nothing():
    features, labels = torch.ones(4, 3), torch.tensor([0, 0, 1, 1])
    assert torch.isfinite(discriminant(sums_of(features, labels), 0.05)(features)).all()


def test_a_symmetric_matrix_is_kept_as_half_of_it(drawn):
    features, labels = drawn
    products = sums_of(features, labels).products
    assert packed(products).numel() == 15
    assert torch.equal(unpacked(packed(products)), products)


def test_features_beyond_the_grid_are_cut_off_so_that_sums_stay_exact():
    assert on_grid(torch.tensor([[1e9, -1e9, 0.5]])).tolist() == [[16.0, -16.0, 0.5]]

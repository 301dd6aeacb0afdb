"""Data that are calibrated by construction, and errors worked out by hand."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from snv.metrics.calibration import COLDEST, HOTTEST, calibration_error, reliability, temperature


@pytest.fixture(scope="module")
def honest():
    """Logits whose softmax is the true distribution of the labels."""
    rng = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(40_000, 5, generator=rng)
    return logits, torch.multinomial(logits.softmax(1), 1, generator=rng)[:, 0]


def test_honest_logits_have_temperature_one_and_no_error(honest):
    logits, labels = honest
    assert temperature(logits, labels) == pytest.approx(1, abs=0.02)
    assert calibration_error(logits.softmax(1), labels) < 0.01


@pytest.mark.parametrize("factor", [0.2, 3.0, 10.0])
def test_logits_times_a_factor_have_it_as_their_temperature(honest, factor):
    logits, labels = honest
    found = temperature(factor * logits, labels)
    assert found == pytest.approx(factor * temperature(logits, labels), rel=1e-5)
    assert calibration_error((factor * logits).softmax(1), labels) > 0.1
    assert calibration_error((factor * logits / found).softmax(1), labels) < 0.01


def test_no_other_temperature_has_a_smaller_loss():
    rng = torch.Generator().manual_seed(1)
    logits, labels = 4 * torch.randn(50, 3, generator=rng).double(), torch.randint(3, (50,), generator=rng)
    best = F.cross_entropy(logits / temperature(logits, labels), labels)
    assert all(best <= F.cross_entropy(logits / t, labels) + 1e-12 for t in torch.linspace(0.1, 19, 400))


def test_the_search_is_bounded_where_the_loss_has_no_minimum():
    logits = torch.eye(3)
    assert temperature(logits, torch.arange(3)) == pytest.approx(COLDEST)
    assert temperature(logits, (torch.arange(3) + 1) % 3) == pytest.approx(HOTTEST)
    assert COLDEST <= temperature(1e30 * logits, torch.arange(3)) <= HOTTEST  # every one gives a loss of 0


def test_without_images_there_is_no_temperature():
    with pytest.raises(ValueError, match="got none"):
        temperature(torch.zeros(0, 3), torch.zeros(0, dtype=torch.long))
    assert calibration_error(torch.zeros(0, 3), torch.zeros(0, dtype=torch.long)) == 0


def test_the_error_is_the_one_worked_out_by_hand():
    sure = torch.tensor([0.9, 0.7, 0.55, 0.65])  # with two bins all lie in (½, 1]
    probabilities = torch.stack([sure, 1 - sure], 1)
    labels = torch.tensor([0, 1, 0, 0])  # right, wrong, right, right
    assert calibration_error(probabilities, labels, bins=2) == pytest.approx(abs(3 / 4 - 2.8 / 4))
    by_hand = (abs(1 - 0.9) + 2 * abs(1 / 2 - 0.675) + abs(1 - 0.55)) / 4  # bins (0.8, 1], (0.6, 0.8], (0.4, 0.6]
    assert calibration_error(probabilities, labels, bins=5) == pytest.approx(by_hand)


def test_the_table_has_a_row_for_every_bin_with_images_and_counts_them_all():
    probabilities = torch.tensor([[1.0, 0.0], [0.5, 0.5], [0.25, 0.75]])
    table = reliability(probabilities, torch.tensor([0, 1, 0]), bins=4)
    assert [(row.low, row.high, row.images) for row in table] == [(0.25, 0.5, 1), (0.5, 0.75, 1), (0.75, 1.0, 1)]
    assert [row.confidence for row in table] == [0.5, 0.75, 1.0]
    assert [row.accuracy for row in table] == [0.0, 0.0, 1.0]

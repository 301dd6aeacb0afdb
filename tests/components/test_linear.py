"""Softmax regression, step by step what PyTorch's own gradient and optimiser do."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from snv.components.linear import fit_linear, rate_at


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_it_is_stochastic_gradient_descent_on_the_cross_entropy(smoothing):
    torch.manual_seed(0)
    head, features, labels = nn.Linear(5, 3), [torch.randn(22, 5), torch.randn(22, 5)], torch.arange(22) % 3
    twin = copy.deepcopy(head)
    optimizer, rng = torch.optim.SGD(twin.parameters(), lr=0.1), torch.Generator().manual_seed(7)
    for epoch in range(20):
        for group in optimizer.param_groups:
            group["lr"] = 0.1 if epoch < 12 else 0.01 if epoch < 15 else 0.001 if epoch < 18 else 0.0001
        for rows in torch.randperm(22, generator=rng).split(8):
            optimizer.zero_grad()
            x = features[epoch % 2][rows]
            F.cross_entropy(twin(x), labels[rows], label_smoothing=smoothing).backward()
            optimizer.step()
    fit_linear(head, features, labels, 20, 8, smoothing, torch.Generator().manual_seed(7))
    for ours, plain in zip(head.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours, plain, atol=1e-5, rtol=1e-5)


def test_the_rate_falls_by_ten_after_60_75_and_90_percent_of_the_epochs():
    rates = [rate_at(epoch, 100) for epoch in (0, 59, 60, 74, 75, 89, 90, 99)]
    assert rates == pytest.approx([0.1, 0.1, 0.01, 0.01, 1e-3, 1e-3, 1e-4, 1e-4])

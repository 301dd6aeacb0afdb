"""The Fisher information against what is known of it."""

from __future__ import annotations

import torch
from torch import nn

from snv.components.fisher import answer_weights, squared_gradients


def test_of_a_linear_softmax_model_it_is_p_times_one_minus_p_times_x_squared():
    torch.manual_seed(0)
    model, images = nn.Linear(12, 5), torch.randn(20, 3, 2, 2)
    p = model(images.flatten(1)).softmax(1).detach()
    weights = answer_weights(p.log(), torch.zeros(20, dtype=torch.long), torch.zeros(20), "exact")
    found, _ = squared_gradients(lambda x: model(x.flatten(1)), [model.weight, model.bias], images, weights)
    expected = torch.einsum("ic,ij->cj", p * (1 - p), images.flatten(1) ** 2)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_sampled_answers_come_as_often_as_the_network_expects_them():
    p = torch.tensor([0.1, 0.6, 0.3])
    draws = (torch.arange(1000) + 0.5) / 1000
    weights = answer_weights(p.log().expand(1000, 3), torch.zeros(1000, dtype=torch.long), draws, "sampled")
    torch.testing.assert_close(weights.mean(0), p, atol=0.002, rtol=0)
    assert (weights.sum(1) == 1).all()

"""∂v/∂m is the slope of what the payoff says, however little memory there is, and leaves the network as it was."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from snv.neurons import find_neurons, mean_responses_to
from snv.valuation.examples import LaidOut, Stacked
from snv.valuation.hooked import gated_logits
from snv.valuation.payoffs import make_payoff
from snv.valuation.slopes import Slopes

N, ROWS = 9, torch.arange(9)


def slopes_of(payoff: str) -> Slopes:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3), nn.Tanh(), nn.Linear(3, 2)).double().eval()
    images, labels = torch.randn(N, 4, dtype=torch.float64), torch.arange(N) % 2
    neurons = find_neurons(model, images)
    means = mean_responses_to(model, neurons, [images], None)
    made = make_payoff(payoff, model(images), labels, torch.arange(N) % 3 % 2)
    return Slopes(model, model, neurons, means, made, labels, LaidOut(Stacked(images), torch.contiguous_format))


def height(slopes: Slopes, gates: torch.Tensor) -> torch.Tensor:
    """v, of all rows at once."""
    parts = [part for _, part in slopes.neurons.by_layer(gates)]
    images = next(slopes.examples.batches([ROWS]))
    logits = gated_logits(slopes.forward, slopes.neurons, parts, slopes.means, images)
    return slopes.payoff.smooth(logits, slopes.labels, ROWS)


@pytest.mark.parametrize("payoff", ["loss", "probability", "disparity"])
@pytest.mark.parametrize("memory", [1, 1000, 2**30])
def test_slopes_are_those_of_the_payoff_within_any_memory(payoff, memory):
    slopes = slopes_of(payoff)
    gates = torch.rand(3, slopes.neurons.n, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    found, values = slopes.at(gates, ROWS, memory)
    torch.testing.assert_close(values, height(slopes, gates).detach())
    for i in range(slopes.neurons.n):
        step = torch.zeros_like(gates)
        step[:, i] = 1e-6
        slope = (height(slopes, gates + step) - height(slopes, gates - step)) / 2e-6
        torch.testing.assert_close(found[:, i], slope.detach(), rtol=1e-5, atol=1e-8)


def test_parameters_need_gradients_again_afterwards_and_have_none():
    slopes = slopes_of("loss")
    slopes.model[0].bias.requires_grad_(False)
    before = [parameter.requires_grad for parameter in slopes.model.parameters()]
    slopes.at(torch.rand(2, slopes.neurons.n, dtype=torch.float64), ROWS, 2**20)
    assert [parameter.requires_grad for parameter in slopes.model.parameters()] == before
    assert all(parameter.grad is None for parameter in slopes.model.parameters())

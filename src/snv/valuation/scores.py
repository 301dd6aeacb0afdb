"""Simple importance scores to compare Shapley values with: each one line of pruning literature."""

from __future__ import annotations

from collections.abc import Callable

import torch

from snv.errors import UserError
from snv.neurons import Neurons, mean_of_responses
from snv.seeding import generator
from snv.shapes import Values
from snv.valuation.examples import in_batches
from snv.valuation.neuron_game import NeuronGame

N_FISHER = 128
"""Images whose gradients are taken one by one."""


def random(game: NeuronGame, seed: int) -> Values:
    """No information at all: the score to beat."""
    return torch.rand(game.n, generator=generator(seed, "random scores"), dtype=torch.float64)


def filter_norm(game: NeuronGame, seed: int) -> Values:
    """‖w_i‖₂ of a neuron's incoming weights, relative to its layer's mean (Li et al. 2017)."""
    return _relative_to_layer(_own_sum(game.neurons, "weight").sqrt(), game.neurons)


def norm_gamma(game: NeuronGame, seed: int) -> Values:
    """|γ_i| of the norm layer behind the neuron (Liu et al. 2017)."""
    gammas = [owned for owned in game.neurons.owned if owned.role == "norm" and owned.name.endswith("weight")]
    if not gammas:
        raise UserError("norm-gamma needs norm layers, and this network has none. Choose another estimator.")
    total = torch.zeros(game.n, dtype=torch.float64)
    for owned in gammas:
        total.index_add_(0, owned.owner.cpu(), owned.tensor.detach().abs().double().cpu())
    return total


def taylor(game: NeuronGame, seed: int) -> Values:
    """|∂v/∂m_i| at the full network: the first-order change when neuron i is replaced (Molchanov et al. 2017)."""
    return game.gradient(torch.ones(1, game.n), None)[0][0].abs()


def fisher(game: NeuronGame, seed: int) -> Values:
    """The mean over images of (∂v/∂m_i)² at the full network (Theis et al. 2018)."""
    rows = torch.randperm(game.n_examples, generator=generator(seed, "fisher images"))[:N_FISHER]
    squares = torch.zeros(game.n, dtype=torch.float64)
    for row in rows:
        squares += game.gradient(torch.ones(1, game.n), row[None])[0][0] ** 2
    return squares / len(rows)


def activation(game: NeuronGame, seed: int) -> Values:
    """The mean size of a neuron's response, relative to its layer's mean (Hu et al. 2016 count the zeros)."""
    batches = game.examples.batches(in_batches(game.n_examples))
    sizes = mean_of_responses(game.model, game.neurons, batches, torch.abs, game.forward)
    by_neuron = [sizes[layer.responses].view(layer.n, -1).mean(1) for layer in game.neurons.layers]
    return _relative_to_layer(torch.cat(by_neuron), game.neurons)


NEED_GRADIENT = frozenset({"taylor", "fisher"})
SCORES: dict[str, Callable[[NeuronGame, int], Values]] = {
    "random": random,
    "filter-norm": filter_norm,
    "norm-gamma": norm_gamma,
    "taylor": taylor,
    "fisher": fisher,
    "activation": activation,
}


def _own_sum(neurons: Neurons, role: str) -> Values:
    """Σ w² over each neuron's parameters of that role."""
    total = torch.zeros(neurons.n, dtype=torch.float64)
    for owned in neurons.owned:
        if owned.role == role:
            squares = owned.tensor.detach().double().flatten(1).square().sum(1)
            total.index_add_(0, owned.owner.cpu(), squares.cpu())
    return total


def _relative_to_layer(scores: Values, neurons: Neurons) -> Values:
    """Scores of different layers made comparable: each divided by its layer's mean."""
    layer_of = neurons.layer_index
    n_layers = len(neurons.layers)
    sums = torch.zeros(n_layers, dtype=torch.float64).index_add_(0, layer_of, scores)
    means = sums / torch.bincount(layer_of, minlength=n_layers)
    return scores / means[layer_of].clamp(min=1e-12)

"""The constant at which a neuron says nothing: what reaches later layers is zero, as if it had been cut out."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from snv.neurons.find import Neurons, NormRows

SMALLEST = 1e-3
"""Scale of a norm layer below which no ordinary response makes its output zero."""


@torch.no_grad()
def silent_responses(neurons: Neurons, means: Float[Tensor, " r"]) -> Float[Tensor, " r"]:
    """Responses that a neuron's BatchNorm turns into zero, m − βσ/γ; zero itself where no norm layer follows.

    Behind other norm layers, whose output depends on more than one channel, and where γ is nearly 0, the mean stays.
    """
    levels = torch.zeros_like(means)
    first = _first_responses(neurons)
    for norm in neurons.norms:
        for source in norm.sources:
            known = source >= 0
            rows, places = known.nonzero()[:, 0], first[source[known]]
            levels[places] = _levels(norm, means[places], rows)
    return levels


def _first_responses(neurons: Neurons) -> Tensor:
    """Where the responses of each neuron start."""
    starts = [layer.first_response + layer.width * torch.arange(layer.n) for layer in neurons.layers]
    return torch.cat(starts)


def _levels(norm: NormRows, means: Float[Tensor, " k"], rows: Tensor) -> Float[Tensor, " k"]:
    """What some rows of a norm layer turn into zero, or the mean where nothing does."""
    module = norm.module
    if len(norm.sources) > 1 or not isinstance(module, nn.modules.batchnorm._BatchNorm) or module.running_mean is None:
        return means
    assert module.running_var is not None
    if not module.affine:
        return module.running_mean[rows].to(means)
    shift, scale = module.bias * (module.running_var + module.eps).sqrt(), module.weight
    levels = (module.running_mean - shift / scale)[rows]
    return torch.where(scale[rows].abs() >= SMALLEST, levels, means.to(levels)).to(means)

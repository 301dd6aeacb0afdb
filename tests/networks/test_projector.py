"""The projector: unit vectors through gated hidden units, with an output layer for each task."""

from __future__ import annotations

import torch

from snv.networks.projector import Projector


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_it_is_two_linear_layers_with_gates_between_and_length_one():
    projector, x, gates = Projector(6, 9, rng()), torch.randn(4, 6, generator=rng(1)), torch.rand(6, generator=rng(2))
    hidden = (x @ projector.hidden.weight.T + projector.hidden.bias).clamp(min=0) * gates
    out = hidden @ projector.output.weight.T + projector.output.bias
    torch.testing.assert_close(projector(x, gates), out / out.norm(dim=1, keepdim=True))


def test_a_new_task_renews_the_output_layer_and_nothing_else():
    projector = Projector(6, 9, rng())
    hidden, output = (x.detach().clone() for x in (projector.hidden.weight, projector.output.weight))
    place = projector.output.weight.data_ptr()
    projector.renew(rng(5))
    assert torch.equal(projector.hidden.weight, hidden)
    assert not torch.equal(projector.output.weight, output)
    assert projector.output.weight.data_ptr() == place
    again = Projector(6, 9, rng())
    again.renew(rng(5))
    assert torch.equal(again.output.weight, projector.output.weight)

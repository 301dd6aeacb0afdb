"""The subnetwork in training, out of the dense network and back."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from test_specialists import SHAPE, chosen, images, taught
from torch import nn

from snv.networks import Body, Network
from snv.neurons import own_weights
from snv.subnetworks.specialists import Specialists
from snv.subnetworks.trainee import Trainee, hold


def test_a_trainee_cannot_move_what_earlier_tasks_read():
    specialists = taught(1)
    specialists.network.add_head(3)
    trainee = Trainee(specialists, chosen(specialists, 0))
    read = specialists.read_by()
    before = [owned.tensor.detach().clone() for owned in own_weights(specialists.neurons)]
    with torch.no_grad():
        for parameter in trainee.small.parameters():
            parameter += 0.5 * parameter.requires_grad
    trainee.frozen.restore()
    specialists.adopt(trainee.written_back(), seed=1)  # which verifies the first
    for owned, entries, old in zip(own_weights(specialists.neurons), read, before, strict=True):
        assert torch.equal(owned.tensor.detach()[entries], old[entries])


def test_a_trainee_comes_back_from_its_state_and_ignores_what_older_versions_stored_besides():
    specialists = taught(1)
    specialists.network.add_head(3)
    trainee = Trainee(specialists, chosen(specialists, 1))
    state = trainee.state()["small"]
    stored = {name: x.clone() for name, x in state.items()} | {"body.part4.shift": torch.zeros(1)}
    with torch.no_grad():
        answers = trainee.small.eval()(images())
        for parameter in trainee.small.parameters():
            parameter.zero_()
        trainee.load(trainee.subnetwork, stored)
        assert torch.equal(trainee.small(images()), answers)


def test_a_tensor_that_is_frozen_altogether_is_not_trained():
    some, all_of_it = nn.Parameter(torch.rand(3, 2)), nn.Parameter(torch.rand(3))
    frozen = hold([(some, torch.eye(3, 2, dtype=torch.bool)), (all_of_it, torch.ones(3, dtype=torch.bool))])
    assert some.requires_grad and not all_of_it.requires_grad
    before = some.detach().clone()
    with torch.no_grad():
        some.add_(1)
    frozen.restore()
    assert torch.equal(some, torch.where(torch.eye(3, 2, dtype=torch.bool), before, before + 1))


class Normed(Body):
    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.a, self.norm, self.b = nn.Conv2d(1, 8, 3, padding=1), norm, nn.Conv2d(8, 6, 3, padding=1)
        self.n_features = 6

    def forward(self, images):
        return self.b(F.relu(self.norm(self.a(images)))).relu().mean((2, 3))


NORMS = {
    "SyncBatchNorm": lambda: nn.SyncBatchNorm(8),
    "InstanceNorm": lambda: nn.InstanceNorm2d(8, affine=True),
    "GroupNorm": lambda: nn.GroupNorm(2, 8),
    "LayerNorm": lambda: nn.LayerNorm((8, *SHAPE[1:])),
}


@pytest.mark.parametrize("make", NORMS.values(), ids=NORMS)
def test_with_any_norm_layer_a_second_task_learns_and_the_first_keeps_every_bit(make):
    torch.manual_seed(0)
    specialists = Specialists(Network(Normed(make()), seed=0).eval(), SHAPE)
    for t in range(2):
        specialists.network.add_head(3)
        trainee = Trainee(specialists, chosen(specialists, t))
        optimizer = torch.optim.Adam([p for p in trainee.small.parameters() if p.requires_grad], lr=0.02)
        losses = []
        for _ in range(6):
            optimizer.zero_grad()
            loss = F.cross_entropy(trainee.small.train()(images()), torch.arange(9) % 3)
            loss.backward()
            optimizer.step()
            trainee.frozen.restore()
            losses.append(loss.item())
        specialists.adopt(trainee.written_back(), seed=t)  # which verifies all
        with torch.no_grad():
            expected = trainee.small.eval()(images())
            torch.testing.assert_close(specialists.logits(images(), t), expected, rtol=1e-4, atol=1e-5)
        assert losses[-1] < losses[0]
    assert specialists.changed() == {}

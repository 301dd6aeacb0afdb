"""The subnetwork in training, out of the dense network and back."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from test_specialists import SHAPE, chosen, images, taught
from torch import nn

from snv.files import cloned
from snv.networks import Body, Network
from snv.neurons import own_weights
from snv.subnetworks.specialists import Specialists
from snv.subnetworks.subnetwork import subnetwork_of
from snv.subnetworks.trainee import Trainee, hold, hold_dense, restored_trainee, trainee_state


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


def test_a_trainee_of_a_mask_starts_with_the_norm_layers_the_dense_network_has_now():
    specialists = taught(1)
    specialists.network.add_head(3)
    mask = chosen(specialists, 1).mask
    trainee, expected = Trainee.of(specialists, mask), subnetwork_of(specialists.body, specialists.neurons, mask)
    assert torch.equal(trainee.subnetwork.mask, mask)
    assert all(torch.equal(trainee.subnetwork.norm[name], x) for name, x in expected.norm.items())


def test_a_stored_trainee_is_restored_into_the_module_that_is_there_and_none_is_none():
    specialists = taught(1)
    specialists.network.add_head(3)
    assert restored_trainee(trainee_state(None), specialists, None) is None
    trainee = Trainee.of(specialists, chosen(specialists, 1).mask)
    state = cloned(trainee_state(trainee))
    assert restored_trainee(trainee_state(None), specialists, trainee) is None
    with torch.no_grad():
        for parameter in trainee.small.parameters():
            parameter.zero_()
    small = trainee.small
    assert restored_trainee(state, specialists, trainee) is trainee and trainee.small is small
    for one in (trainee, restored_trainee(state, specialists, None)):
        assert all(torch.equal(x, state["small"][name]) for name, x in one.small.state_dict().items())


def test_what_tasks_read_of_the_dense_network_is_put_back_and_the_rest_may_move():
    specialists = taught(2)
    frozen = hold_dense(specialists)
    weights = [owned.tensor for owned in own_weights(specialists.neurons)]
    before = [weight.detach().clone() for weight in weights]
    with torch.no_grad():
        for weight in weights:
            weight += 1.0 * weight.requires_grad
    frozen.restore()
    for weight, old, read in zip(weights, before, specialists.read_by(), strict=True):
        assert weight.requires_grad == (not bool(read.all()))
        assert torch.equal(
            weight.detach(), torch.where(read.view(read.shape + (1,) * (old.ndim - read.ndim)), old, old + 1)
        )


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

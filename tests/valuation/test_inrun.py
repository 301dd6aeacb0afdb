from __future__ import annotations

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import SGD, Adam

from snv.files import load_state, save_state
from snv.networks import build_network
from snv.neurons.find import find_neurons
from snv.seeding import derived_seed
from snv.shapley.estimate import estimate
from snv.valuation.inrun import CarriedValues, LearnedValues
from snv.valuation.neuron_game import NeuronGame

SHAPE = (1, 6, 6)


def data(n, seed):
    rng = torch.Generator().manual_seed(seed)
    labels = torch.randint(2, (n,), generator=rng)
    return torch.randn(n, *SHAPE, generator=rng) + labels[:, None, None, None], labels


class Noisy(nn.Module):
    """A convnet with dropout, which draws random numbers while it trains."""

    def __init__(self):
        super().__init__()
        self.network = build_network("convnet", SHAPE, 0, width=4)
        self.network.add_head(2)

    def forward(self, x):
        return self.network.classify(F.dropout(self.network.features(x), 0.2, self.training))


def train(model, optimizer, watch=None, steps=6, first=0):
    """Some steps of a plain training loop, with or without someone watching."""
    for s in range(first, first + steps):
        torch.manual_seed(s)
        images, labels = data(16, seed=10 + s)
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        if watch is not None:
            watch.before_step()
        optimizer.step()
        if watch is not None:
            watch.after_step()


def watcher(model):
    return LearnedValues(model, find_neurons(model, data(2, 0)[0]), *data(20, 1), every=2)


class Carrying:
    """Watches as a learner does that takes its values from its own batches."""

    def __init__(self, model, carried=None):
        self.model, self.neurons = model, find_neurons(model, data(2, 0)[0])
        self.carried = carried or CarriedValues(self.neurons.n)

    def before_step(self):
        pass

    def after_step(self):
        self.carried.add(self.model, self.neurons, *data(16, seed=10), self.model, seed=5)


@pytest.mark.parametrize("optimizer", [partial(SGD, lr=0.1, momentum=0.9), partial(Adam, lr=0.01, weight_decay=1e-3)])
@pytest.mark.parametrize("watch", [watcher, Carrying], ids=["learned", "carried"])
def test_watching_does_not_disturb_training(watch, optimizer):
    plain, watched = Noisy(), Noisy()
    train(plain, optimizer(plain.parameters()))
    train(watched, optimizer(watched.parameters()), watch(watched))
    for (name, one), two in zip(plain.state_dict().items(), watched.state_dict().values(), strict=True):
        assert torch.equal(one, two), name
    for one, two in zip(plain.parameters(), watched.parameters(), strict=True):
        assert torch.equal(one.grad, two.grad)
    assert watched.training


def test_credits_of_all_neurons_sum_to_the_predicted_fall_of_the_loss():
    model = Noisy()
    for head in model.network.heads:
        head.requires_grad_(False)  # then every move belongs to a neuron
    images, labels = data(20, 1)

    def loss():
        model.eval()
        with torch.no_grad():
            value = F.cross_entropy(model(images), labels).item()
        model.train()
        return value

    watch = watcher(model)
    model(images)  # BatchNorm sees the data once
    for norm in [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]:
        norm.momentum = 0.0  # and is then left out of the game
    before = loss()
    train(model, SGD(model.parameters(), lr=1e-4), watch, steps=1)
    assert watch.values().sum().item() == pytest.approx(before - loss(), rel=0.05)


def test_values_equal_a_loop_over_neurons():
    model = Noisy()
    watch = watcher(model)
    optimizer = SGD(model.parameters(), lr=0.1)
    names, parameters = zip(*model.named_parameters(), strict=True)
    images, labels = data(16, seed=10)
    F.cross_entropy(model(images), labels).backward()
    model.eval()
    images, labels = data(20, 1)
    slopes = dict(zip(names, torch.autograd.grad(F.cross_entropy(model(images), labels), parameters), strict=True))
    model.train()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    with watch.step():
        optimizer.step()
    after = dict(model.named_parameters())
    for i in range(0, watch.neurons.n, 5):
        expected = 0.0
        for owned in watch.neurons.owned:
            if owned.role != "statistic":
                name, rows = owned.name, owned.owner == i
                expected -= (slopes[name] * (after[name] - before[name]))[rows].sum().item()
        assert watch.values()[i].item() == pytest.approx(expected, rel=1e-4, abs=1e-9)


def test_a_frozen_neuron_gets_exactly_nothing():
    model = Noisy()
    watch = watcher(model)
    optimizer = Adam(model.parameters(), lr=0.01, weight_decay=0.1)
    for s in range(3):
        images, labels = data(16, seed=s)
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        watch.before_step()
        old = {owned.name: owned.tensor[owned.owner == 5].clone() for owned in watch.neurons.owned}
        optimizer.step()
        with torch.no_grad():
            for owned in watch.neurons.owned:
                owned.tensor[owned.owner == 5] = old[owned.name]
        watch.after_step()
    assert watch.values()[5] == 0
    assert (watch.values() != 0).sum() == watch.neurons.n - 1


def test_layers_that_are_not_trained_get_nothing():
    model = Noisy()
    model.network.body.conv1.requires_grad_(False)
    model.network.body.bn1.requires_grad_(False)
    watch = watcher(model)
    train(model, SGD([p for p in model.parameters() if p.requires_grad], lr=0.1), watch)
    assert watch.values()[:4].abs().max() == 0
    assert watch.values()[4:].abs().min() > 0


def test_a_saved_state_continues_where_it_stopped(tmp_path):
    whole, model = Carrying(Noisy()), Noisy()
    train(whole.model, SGD(whole.model.parameters(), lr=0.1), whole)
    first, optimizer = Carrying(model), SGD(model.parameters(), lr=0.1)
    train(model, optimizer, first, steps=3)
    save_state(tmp_path / "values", first.carried.state())
    second = Carrying(model, CarriedValues.from_state(load_state(tmp_path / "values")))
    train(model, optimizer, second, steps=3, first=3)
    assert torch.equal(second.carried.values, whole.carried.values)


def test_values_carried_on_one_unchanging_batch_are_those_of_the_gradient():
    model, (images, labels) = Noisy(), data(16, seed=10)
    train(model, SGD(model.parameters(), lr=0.1), steps=3)
    watch = Carrying(model)
    assert watch.carried.values.tolist() == [0.0] * watch.neurons.n
    for _ in range(4):
        watch.after_step()
    game = NeuronGame(model, images, labels, watch.neurons)
    found = estimate(game, "gradient", draws=8, minibatch=None, seed=derived_seed(5, "in-run"))
    torch.testing.assert_close(watch.carried.values, found.values)


def test_the_result_compares_credits_with_the_fall_of_the_loss():
    model = Noisy()
    watch = LearnedValues.of(model, *data(20, 1), every=1)
    train(model, SGD(model.parameters(), lr=0.02), watch, steps=4)
    result = watch.valuation(k=3)
    model.eval()
    images, labels = data(20, 1)
    assert result.v_all == pytest.approx(-F.cross_entropy(model(images), labels).item(), rel=1e-5)
    assert torch.equal(result.values, watch.values())
    assert len(result.top_k()) == 3
    assert result.names[0] == "network.body.conv1[0]"
    assert result.evaluations == 1 + 3 * 4


def test_a_step_that_ends_before_it_began_is_refused():
    with pytest.raises(RuntimeError, match="before_step"):
        watcher(Noisy()).after_step()

from __future__ import annotations

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import SGD, Adam

from snv.errors import UserError
from snv.files import load_state, save_state
from snv.networks import build_network
from snv.neurons.find import find_neurons
from snv.valuation.inrun import CarriedValues, LearnedValues

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


def train(model, optimizer, watch=None, steps=6):
    """Some steps of a plain training loop, with or without someone watching."""
    torch.manual_seed(0)
    for s in range(steps):
        images, labels = data(16, seed=10 + s)
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        if watch is not None:
            watch.before_step()
        optimizer.step()
        if watch is not None:
            watch.after_step()


def watcher(kind, model, **options):
    neurons = find_neurons(model, data(2, 0)[0])
    if kind == "learned":
        return LearnedValues(model, neurons, *data(20, 1), every=2, **options)
    return CarriedValues(model, neurons, *data(20, 1), seed=0, every=2, examples=8, **options)


@pytest.mark.parametrize("optimizer", [partial(SGD, lr=0.1, momentum=0.9), partial(Adam, lr=0.01, weight_decay=1e-3)])
@pytest.mark.parametrize("kind", ["learned", "carried"])
def test_watching_does_not_disturb_training(kind, optimizer):
    plain, watched = Noisy(), Noisy()
    train(plain, optimizer(plain.parameters()))
    train(watched, optimizer(watched.parameters()), watcher(kind, watched))
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

    watch = watcher("learned", model)
    model(images)  # BatchNorm sees the data once
    for norm in [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]:
        norm.momentum = 0.0  # and is then left out of the game
    before = loss()
    train(model, SGD(model.parameters(), lr=1e-4), watch, steps=1)
    assert watch.values().sum().item() == pytest.approx(before - loss(), rel=0.05)


def test_values_equal_a_loop_over_neurons():
    model = Noisy()
    watch = watcher("learned", model)
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
        for part in watch.neurons.parts_of(i):
            if part.role != "statistic":
                moved = (after[part.name] - before[part.name])[part.rows]
                expected -= (slopes[part.name][part.rows] * moved).sum().item()
        assert watch.values()[i].item() == pytest.approx(expected, rel=1e-4, abs=1e-9)


def test_a_frozen_neuron_gets_exactly_nothing():
    model = Noisy()
    watch = watcher("learned", model)
    optimizer = Adam(model.parameters(), lr=0.01, weight_decay=0.1)
    for s in range(3):
        images, labels = data(16, seed=s)
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        watch.before_step()
        old = {part.name: part.tensor[part.rows].clone() for part in watch.neurons.parts_of(5)}
        optimizer.step()
        with torch.no_grad():
            for part in watch.neurons.parts_of(5):
                part.tensor[part.rows] = old[part.name]
        watch.after_step()
    assert watch.values()[5] == 0
    assert (watch.values() != 0).sum() == watch.neurons.n - 1


def test_layers_that_are_not_trained_get_nothing():
    model = Noisy()
    model.network.body.conv1.requires_grad_(False)
    model.network.body.bn1.requires_grad_(False)
    watch = watcher("learned", model)
    train(model, SGD([p for p in model.parameters() if p.requires_grad], lr=0.1), watch)
    assert watch.values()[:4].abs().max() == 0
    assert watch.values()[4:].abs().min() > 0


@pytest.mark.parametrize("kind", ["learned", "carried"])
def test_a_saved_state_continues_where_it_stopped(kind, tmp_path):
    whole_model, model = Noisy(), Noisy()
    whole = watcher(kind, whole_model)
    optimizer = SGD(whole_model.parameters(), lr=0.1)
    train(whole_model, optimizer, whole, steps=3)
    train(whole_model, optimizer, whole, steps=3)
    first = watcher(kind, model)
    optimizer = SGD(model.parameters(), lr=0.1)
    train(model, optimizer, first, steps=3)
    save_state(tmp_path / "values", first.state_dict())
    second = watcher(kind, model)
    second.load_state_dict(load_state(tmp_path / "values"))
    train(model, optimizer, second, steps=3)
    assert torch.equal(second.values(), whole.values())


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


def test_misuse_is_answered():
    model = Noisy()
    with pytest.raises(RuntimeError, match="before_step"):
        watcher("learned", model).after_step()
    with pytest.raises(RuntimeError, match="after_step"):
        watcher("carried", model).values()
    with pytest.raises(UserError, match="do not belong together"):
        watcher("carried", model).load_state_dict({"steps": 0, "draws": 0, "total": torch.zeros(3)})
    with pytest.raises(UserError, match="mean over examples"):
        watcher("carried", model, payoff=lambda logits, labels: logits.sum())

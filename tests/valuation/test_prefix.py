from __future__ import annotations

import sys

import pytest
import torch
import torch.nn.functional as F
from torch import fx, nn

from snv.networks import build_network
from snv.shapley.game import Game
from snv.valuation.neuron_game import NeuronGame


class Shared(nn.Module):
    """One layer used twice, a branch, and a product of branches."""

    def __init__(self):
        super().__init__()
        self.twice, self.side, self.fc = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(8, 2)

    def forward(self, x):
        x = F.relu(self.twice(F.relu(self.twice(x))))
        return self.fc(torch.cat([x * torch.sigmoid(self.side(x)), x], 1))


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 5), nn.Linear(5, 2)

    def forward(self, x):
        x = self.a(x)
        return self.b(x.relu() if x.shape[0] < 1000 else x)


class Centred(nn.Module):
    """Mixes the examples of a batch, so that coalitions in one batch would see each other."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 5), nn.Linear(5, 2)

    def forward(self, x):
        x = self.a(x).relu()
        return self.b(x - x.mean(0))


class Viewed(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.fc = nn.Conv2d(1, 3, 3), nn.Conv2d(3, 4, 3), nn.Linear(4 * 4, 2)

    def forward(self, x):
        x = self.b(self.a(x).relu()).relu()
        return self.fc(x.view(x.size(0), -1))


class TwoFaced(nn.Module):
    """Answers the tracer otherwise than it answers images."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 5), nn.Linear(5, 2)

    def forward(self, x):
        traced = isinstance(x, fx.Proxy)
        return self.b(self.a(x).relu()) + (3 if traced else 0)


def resnet():
    network = build_network("resnet18", (3, 8, 8), 0, width=4)
    network.add_head(2)
    with torch.no_grad():
        for _ in range(3):
            network(torch.randn(32, 3, 8, 8))
    return network


MODELS = {  # name: (maker, shape of one input, can be followed)
    "resnet": (resnet, (3, 8, 8), True),
    "sequential": (
        lambda: nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2)),
        (4,),
        True,
    ),
    "shared": (Shared, (4,), True),
    "branching": (Branching, (4,), False),
    "viewed": (Viewed, (1, 6, 6), False),
}


@pytest.fixture(params=MODELS.values(), ids=MODELS)
def games(request):
    """The same game with and without shared prefixes."""
    make, shape, follows = request.param
    torch.manual_seed(0)
    model, images, labels = make(), torch.randn(9, *shape), torch.randint(2, (9,))
    fast = NeuronGame(model, images, labels)
    assert fast.shares_prefixes == follows
    return fast, NeuronGame(model, images, labels, fast.neurons, means=fast.means, share_prefixes=False)


def some(n, most=24):
    return torch.randperm(n, generator=torch.Generator().manual_seed(0))[:most]


def half(n):
    return torch.rand(n, generator=torch.Generator().manual_seed(1)) < 0.5


def test_flips_equal_the_plain_definition(games):
    fast, slow = games
    for rows in (None, torch.tensor([1, 4, 5])):
        expected = Game.flips(slow, half(slow.n), some(slow.n), rows)
        torch.testing.assert_close(fast.flips(half(fast.n), some(fast.n), rows), expected, rtol=1e-4, atol=1e-6)


def path_along(order, n):
    """The coalitions of a permutation: nobody, the first player, the first two, …"""
    return order.argsort()[None, :] < torch.arange(n + 1)[:, None]


def test_growing_and_shrinking_coalitions_have_the_values_of_whole_passes(games):
    fast, slow = games
    path = path_along(torch.randperm(fast.n, generator=torch.Generator().manual_seed(0)), fast.n)
    path = path[:: max(1, fast.n // 6)]
    for coalitions in (path, ~path):
        torch.testing.assert_close(fast.values(coalitions), slow.values(coalitions), rtol=1e-4, atol=1e-6)


def test_blocks_and_memory_do_not_change_the_numbers(games, monkeypatch):
    fast, slow = games
    expected = slow.flips(half(slow.n), some(slow.n, 8))
    inside = sys.modules[NeuronGame.__module__]
    monkeypatch.setattr(inside, "BLOCK", 3)
    monkeypatch.setattr(inside, "ROWS", 4)
    for memory in (1, 10**6):
        small = NeuronGame(fast.model, fast.images, fast.labels, fast.neurons, means=fast.means, memory=memory)
        torch.testing.assert_close(small.flips(half(fast.n), some(fast.n, 8)), expected, rtol=1e-4, atol=1e-6)
        path = path_along(torch.arange(fast.n), fast.n)[:9]
        torch.testing.assert_close(small.values(path), slow.values(path), rtol=1e-4, atol=1e-6)


def test_late_neurons_cost_less_than_early_ones():
    torch.manual_seed(0)
    game = NeuronGame(resnet(), torch.randn(8, 3, 8, 8), torch.randint(2, (8,)))

    def cost(layer):
        first = game.neurons.names.index(f"{layer}[0]")
        before = game.evaluations
        game.flips(half(game.n), torch.arange(first, first + 4))
        return game.evaluations - before

    costs = [cost(f"body.{name}") for name in ("conv1", "layer2.0.conv1", "layer3.0.conv1", "layer4.1.conv2")]
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] == pytest.approx(2, abs=0.01)  # V(S), and the shared prefix of all four flips


def test_coalitions_that_differ_in_nothing_cost_one_evaluation():
    torch.manual_seed(0)
    game = NeuronGame(resnet(), torch.randn(8, 3, 8, 8), torch.randint(2, (8,)))
    same = half(game.n).repeat(6, 1)
    values = game.values(same)
    assert game.evaluations == pytest.approx(1)
    assert values.unique().numel() == 1


def test_a_model_that_mixes_examples_is_refused():
    torch.manual_seed(0)
    with pytest.raises(ValueError, match="mixes examples"):
        NeuronGame(Centred(), torch.randn(9, 4), torch.randint(2, (9,)))


def engine_of(model, caplog, **options):
    """The engine a game chooses, and what it says about it."""
    caplog.clear()
    torch.manual_seed(0)
    game = NeuronGame(model, torch.randn(9, 4), torch.randint(2, (9,)), **options)
    game.values(torch.ones(2, game.n, dtype=torch.bool))
    return game.engine, [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def test_a_model_that_cannot_be_followed_is_evaluated_whole_and_the_reason_is_told_once(caplog):
    engine, told = engine_of(Branching(), caplog)
    assert engine == "whole forward passes"
    (message,) = told
    assert "cannot be followed step by step: TraceError: symbolically traced variables" in message
    assert "several times as long" in message


def test_a_traced_model_that_answers_differently_is_reported_with_the_largest_difference(caplog):
    engine, told = engine_of(TwoFaced(), caplog)
    assert engine == "whole forward passes"
    (message,) = told
    assert "answers differently" in message
    assert "differ by up to 3." in message
    assert "Please report it" in message


def test_a_failure_while_the_steps_are_run_is_told_too(caplog, monkeypatch):
    def fail(*_):
        raise RuntimeError("no kernel for this")

    monkeypatch.setattr("snv.valuation.prefix.Replay.logits", fail)
    engine, (message,) = engine_of(Shared(), caplog)
    assert engine == "whole forward passes"
    assert "no kernel for this" in message


def test_no_warning_is_given_where_prefixes_are_shared_or_not_asked_for(caplog):
    assert engine_of(Shared(), caplog) == ("shared prefixes", [])
    assert engine_of(Branching(), caplog, share_prefixes=False) == ("whole forward passes", [])

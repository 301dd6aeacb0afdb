from __future__ import annotations

import pickle
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from snv.networks import build_network
from snv.neurons.find import find_neurons
from snv.neurons.gates import ablated
from snv.shapley.exact import ExactSettings, exact
from snv.shapley.game import Game
from snv.valuation.neuron_game import NeuronGame


def warmed(name="resnet18", shape=(3, 8, 8), **options):
    """An untrained network whose BatchNorm has seen data, left in training mode."""
    torch.manual_seed(0)
    network = build_network(name, shape, 0, **options)
    network.add_head(3)
    with torch.no_grad():
        for _ in range(3):
            network(torch.randn(32, *shape))
    return network


def data(shape, n=12, classes=3):
    rng = torch.Generator().manual_seed(1)
    return torch.randn(n, *shape, generator=rng), torch.randint(classes, (n,), generator=rng)


@pytest.fixture(scope="module")
def game():
    return NeuronGame(warmed(width=4), *data((3, 8, 8)))


def plain_value(game, coalition, payoff):
    """V(S) as anyone would write it: hooks, one forward pass over everything, one score."""
    game.model.eval()
    with torch.no_grad(), ablated(game.neurons, coalition, game.means):
        value = payoff(game.forward(game.images), game.labels).item()
    game.model.train()
    return value


def coalitions(n, p=5):
    rng = torch.Generator().manual_seed(2)
    return torch.rand(p, n, generator=rng) < torch.rand(p, 1, generator=rng)


SCORES = {
    "loss": lambda logits, labels: -F.cross_entropy(logits, labels),
    "accuracy": lambda logits, labels: (logits.argmax(1) == labels).float().mean(),
    "probability": lambda logits, labels: logits.softmax(1)[torch.arange(len(labels)), labels].mean(),
}


@pytest.mark.parametrize("share_prefixes", [True, False])
@pytest.mark.parametrize("payoff", SCORES)
def test_batched_values_equal_one_hooked_forward_pass_each(payoff, share_prefixes):
    game = NeuronGame(warmed(width=4), *data((3, 8, 8)), payoff=payoff, share_prefixes=share_prefixes)
    assert game.shares_prefixes == share_prefixes
    chosen = coalitions(game.n)
    plain = torch.tensor([plain_value(game, c, SCORES[payoff]) for c in chosen], dtype=torch.float64)
    torch.testing.assert_close(game.values(chosen), plain, rtol=1e-5, atol=1e-6)
    assert game.values(chosen[:0]).shape == (0,)


def test_minibatches_average_to_the_whole(game):
    chosen = coalitions(game.n)
    halves = torch.arange(12).view(2, 6)
    torch.testing.assert_close(torch.stack([game.values(chosen, rows) for rows in halves]).mean(0), game.values(chosen))


def test_everyone_is_the_network_itself_and_no_one_is_constant(game):
    game.model.eval()
    with torch.no_grad():
        expected = -F.cross_entropy(game.model(game.images), game.labels).item()
    game.model.train()
    assert game.everyone == pytest.approx(expected, rel=1e-5)
    assert game.no_one == pytest.approx(game(torch.zeros(game.n, dtype=torch.bool)))


@pytest.mark.parametrize("payoff", ["loss", "probability"])
def test_the_gradient_equals_finite_differences(payoff):
    model = warmed("convnet", (1, 6, 6), width=3).double()
    images, labels = data((1, 6, 6))
    game = NeuronGame(model, images.double(), labels, payoff=payoff)
    gates = torch.rand(2, game.n, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    slopes, values = game.gradient(gates)
    step = 1e-6
    for i in [0, 4, 9, game.n - 1]:
        moved = gates.clone()
        moved[:, i] += step
        torch.testing.assert_close((game.gradient(moved)[1] - values) / step, slopes[:, i], rtol=1e-3, atol=1e-6)


def test_the_gradient_equals_that_of_a_naive_implementation(game):
    gates = torch.rand(game.n, generator=torch.Generator().manual_seed(3)).requires_grad_()
    hooks = []
    for layer, m in game.neurons.by_layer(gates):
        mean = game.means[layer.responses].view(1, -1, 1, 1)
        hooks.append(
            layer.module.register_forward_hook(
                lambda _m, _i, a, m=m, mean=mean: mean + m.view(1, -1, 1, 1) * (a - mean)
            )
        )
    game.model.eval()
    value = -F.cross_entropy(game.model(game.images), game.labels)
    expected = torch.autograd.grad(value, gates)[0]
    game.model.train()
    for hook in hooks:
        hook.remove()
    slopes, values = game.gradient(gates.detach()[None])
    torch.testing.assert_close(slopes[0].float(), expected, rtol=1e-3, atol=1e-6)
    assert values.item() == pytest.approx(value.item(), rel=1e-5)


def test_at_corners_the_continued_game_equals_the_game(game):
    chosen = coalitions(game.n)
    torch.testing.assert_close(game.gradient(chosen.float())[1], game.values(chosen), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("payoff", ["loss", "disparity"])
def test_a_small_memory_changes_chunks_and_not_numbers(game, payoff):
    groups = torch.arange(12) % 2
    given = {"neurons": game.neurons, "payoff": payoff, "means": game.means, "groups": groups}
    large = NeuronGame(game.model, game.images, game.labels, **given)
    small = NeuronGame(game.model, game.images, game.labels, **given, memory=1)
    gates = torch.rand(2, game.n)
    torch.testing.assert_close(small.gradient(gates)[0], large.gradient(gates)[0], rtol=1e-3, atol=1e-6)
    chosen = coalitions(game.n, p=3)
    torch.testing.assert_close(small.values(chosen), large.values(chosen), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("share_prefixes", [True, False])
def test_no_forward_pass_is_larger_than_the_memory_allows(share_prefixes):
    model = nn.Sequential(nn.Linear(8, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 2))
    images, labels = data((8,), n=64, classes=2)
    memory = 100 * 256 * 4
    game = NeuronGame(model, images, labels, memory=memory, share_prefixes=share_prefixes)
    largest = []
    model[0].register_forward_hook(lambda _m, _i, out: largest.append(out.numel() * 4))
    model[3].register_forward_hook(lambda _m, _i, out: largest.append(out.numel() * 4))
    game.values(coalitions(game.n, p=40))
    game.gradient(torch.rand(5, game.n))
    assert 0 < max(largest) <= memory


def test_values_flips_and_gradients_leave_no_trace(game):
    model = game.model
    model.train()
    model.body.bn1.eval()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state = torch.get_rng_state()
    fresh = NeuronGame(model, game.images, game.labels)
    fresh.values(coalitions(game.n))
    fresh.gradient(torch.full((2, game.n), 0.5))
    fresh.flips(coalitions(game.n)[0], torch.arange(5))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(p.grad is None and p.requires_grad for p in model.parameters())
    assert not any(module._forward_hooks for module in model.modules())
    assert model.training
    assert not model.body.bn1.training
    model.train()


def test_evaluations_are_counted_in_units_of_all_data(game):
    plain = NeuronGame(game.model, game.images, game.labels, neurons=game.neurons, share_prefixes=False)
    plain.values(coalitions(game.n), torch.arange(6))
    assert plain.evaluations == pytest.approx(2.5)
    plain.gradient(torch.rand(2, game.n), torch.arange(3))
    assert plain.evaluations == pytest.approx(2.5 + 2 * 3 / 4)


def test_a_neuron_that_nobody_reads_is_a_dummy():
    model = warmed("mlp", (1, 3, 3), hidden=[4, 4])
    with torch.no_grad():
        model.body.layers[1].weight[:, 2] = 0
    game = NeuronGame(model, *data((1, 3, 3)))
    for coalition in coalitions(game.n):
        assert game.flips(coalition, torch.tensor([2])).item() == pytest.approx(0, abs=1e-9)
    assert game.gradient(torch.rand(3, game.n))[0][:, 2].abs().max() == 0


def test_two_copies_of_a_neuron_are_worth_the_same():
    model = warmed("mlp", (1, 3, 3), hidden=[4, 4])
    first, second = model.body.layers
    with torch.no_grad():
        first.weight[3], first.bias[3] = first.weight[1], first.bias[1]
        second.weight[:, 3] = second.weight[:, 1]
    values = exact(NeuronGame(model, *data((1, 3, 3))), ExactSettings()).values
    assert float(values[1]) == pytest.approx(float(values[3]), rel=1e-4)


def test_a_linear_read_out_with_squared_error_has_the_closed_form():
    """v is quadratic in the gates, so φ_i = ½ (Δ_i(∅) + Δ_i(all without i))."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 6), nn.Linear(6, 1))
    images, labels = torch.randn(20, 5), torch.randint(2, (20,))

    def squared_error(logits, labels):
        return -((logits[:, 0] - labels) ** 2)

    game = NeuronGame(model, images, labels, find_neurons(model, images, exclude=["0"]), squared_error)
    everyone, no_one, all_players = torch.ones(6) == 1, torch.zeros(6) == 1, torch.arange(6)
    closed = (game.flips(no_one, all_players) + game.flips(everyone, all_players)) / 2
    torch.testing.assert_close(exact(game, ExactSettings()).values, closed, rtol=1e-4, atol=1e-6)
    middle = game.gradient(torch.full((1, 6), 0.5))[0][0]  # the same, once more
    torch.testing.assert_close(middle, closed, rtol=1e-4, atol=1e-6)
    assert closed.sum().item() == pytest.approx(game.everyone - game.no_one, rel=1e-4)


def test_one_task_of_a_network_is_played_through_its_own_head():
    network = warmed("mlp", (1, 3, 3), hidden=[4, 4])
    network.add_head(2)
    images, labels = data((1, 3, 3), classes=2)
    game = NeuronGame(network, images, labels, forward=lambda x: network(x, task=1))
    assert game.shares_prefixes
    network.eval()
    assert game.everyone == pytest.approx(-F.cross_entropy(network(images, task=1), labels).item(), rel=1e-5)


def test_a_transformer_is_played_with_whole_forward_passes():
    class Transformer(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True)
            self.fc = nn.Linear(8, 3)

        def forward(self, x):
            return self.fc(self.layer(x).mean(1))

    torch.manual_seed(0)
    game = NeuronGame(Transformer(), *data((5, 8)))
    assert not game.shares_prefixes
    chosen = coalitions(game.n)
    plain = torch.tensor([plain_value(game, c, SCORES["loss"]) for c in chosen], dtype=torch.float64)
    torch.testing.assert_close(game.values(chosen), plain, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(game.gradient(chosen.float())[1], plain, rtol=1e-5, atol=1e-6)
    players = torch.arange(game.n)
    torch.testing.assert_close(game.flips(chosen[0], players), Game.flips(game, chosen[0], players), rtol=0, atol=1e-6)


def test_in_the_silent_game_neurons_outside_say_nothing():
    network = build_network("convnet", (1, 8, 8), 0, width=4)
    network.add_head(3)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.bias, generator=torch.Generator().manual_seed(2))
    images = torch.randn(12, 1, 8, 8, generator=torch.Generator().manual_seed(3))
    labels = torch.arange(12) % 3
    game = NeuronGame(network.eval(), images, labels, silent=True)
    coalition = torch.rand(game.n, generator=torch.Generator().manual_seed(4)) < 0.6
    worth = game(coalition)
    for norm in game.neurons.norms:
        rows = norm.silent(coalition)
        with torch.no_grad():
            norm.module.weight[rows], norm.module.bias[rows] = 0, 0
    cut = NeuronGame(network, images, labels)
    assert worth == pytest.approx(cut(torch.ones(game.n, dtype=torch.bool)), abs=1e-5)


@pytest.mark.parametrize("share_prefixes", [True, False])
@pytest.mark.parametrize("payoff", ["loss", "disparity"])
def test_a_game_made_anew_in_another_process_gives_the_same_bits(payoff, share_prefixes):
    network, (images, labels) = warmed(width=4), data((3, 8, 8))
    network.add_head(2)
    game = NeuronGame(
        network,
        images,
        labels,
        payoff=payoff,
        groups=torch.arange(12) % 3,
        silent=True,
        forward=partial(network, task=0),
        share_prefixes=share_prefixes,
    )
    network.train()
    anew = pickle.loads(pickle.dumps(game))
    some, rows = coalitions(game.n), torch.tensor([1, 11, 4, 0]) if payoff == "loss" else None
    assert torch.equal(anew.values(some, rows), game.values(some, rows))
    assert torch.equal(anew.flips(some[0], torch.arange(5), rows), game.flips(some[0], torch.arange(5), rows))
    assert torch.equal(anew.gradient(some.double(), rows)[0], game.gradient(some.double(), rows)[0])
    assert anew.evaluations == game.evaluations
    assert anew.engine == game.engine
    assert anew.names == game.names


def test_of_images_that_are_part_of_a_larger_tensor_only_the_part_is_sent():
    images, labels = data((3, 8, 8), n=2000)
    network = warmed(width=4)
    few = len(pickle.dumps(NeuronGame(network, images[:10].clone(), labels[:10].clone())))
    assert len(pickle.dumps(NeuronGame(network, images[:10], labels[:10]))) == few


@pytest.mark.parametrize("share_prefixes", [True, False])
def test_where_memory_runs_out_values_and_gradients_are_the_same_within_less(share_prefixes, caplog):
    """A late layer that takes no more than 40 copies of an image at once."""
    network = warmed(width=4)
    game = NeuronGame(network, *data((3, 8, 8), n=24), share_prefixes=share_prefixes)
    some = coalitions(game.n, 12)
    gates = some[:6].float()
    values, (slopes, heights), memory = game.values(some), game.gradient(gates), game.memory

    def narrow(_, inputs):
        if len(inputs[0]) > 40:
            raise torch.OutOfMemoryError("CUDA out of memory.")

    late = [module for module in network.modules() if isinstance(module, nn.Conv2d)][-1]
    late.register_forward_pre_hook(narrow)
    torch.testing.assert_close(game.values(some), values)
    less = game.memory
    assert less < memory
    again, heights_again = game.gradient(gates)
    torch.testing.assert_close(again, slopes, rtol=1e-3, atol=1e-6)
    torch.testing.assert_close(heights_again, heights)
    n_warnings = len(caplog.messages)
    game.values(some)
    assert len(caplog.messages) == n_warnings > 0, "what it may take is remembered"

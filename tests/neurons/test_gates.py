from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from snv.networks import build_network
from snv.neurons.find import find_neurons
from snv.neurons.gates import ablated, gated, mean_responses_to


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.fc = nn.Linear(8, 3)

    def forward(self, x):
        return self.fc(self.encoder(x).mean(1))


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.twice, self.fc = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(F.relu(self.twice(F.relu(self.twice(x)))))


def pooled(*layers, features):
    return nn.Sequential(
        *layers, nn.Flatten(2), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(features, 3)
    )


MODELS = {  # name: (model, shape of one input)
    "mlp": (nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3)), (6,)),
    "1d": (pooled(nn.Conv1d(2, 4, 3), nn.BatchNorm1d(4), nn.ReLU(), nn.Conv1d(4, 5, 3), features=5), (2, 9)),
    "2d": (pooled(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 5, 3), features=5), (2, 7, 7)),
    "3d": (pooled(nn.Conv3d(1, 3, 3), nn.ReLU(), nn.Conv3d(3, 4, 2), features=4), (1, 5, 5, 5)),
    "depthwise": (pooled(nn.Conv2d(2, 4, 1), nn.ReLU(), nn.Conv2d(4, 4, 3, groups=4), features=4), (2, 5, 5)),
    "grouped": (pooled(nn.Conv2d(4, 6, 3, groups=2), nn.GroupNorm(3, 6), features=6), (4, 5, 5)),
    "transformer": (Transformer(), (5, 8)),
    "shared": (Shared(), (4,)),
}


@pytest.fixture(params=MODELS.values(), ids=MODELS)
def case(request):
    """A model in evaluation mode, its neurons, inputs and mean responses."""
    model, shape = request.param
    torch.manual_seed(0)
    images = torch.randn(6, *shape)
    model.eval()
    neurons = find_neurons(model, images)
    return model, neurons, images, mean_responses_to(model, neurons, [images])


def hooks_of(model):
    return [hook for module in model.modules() for hook in [*module._forward_hooks, *module._forward_pre_hooks]]


def gates_for(neurons, gates):
    return [part for _, part in neurons.by_layer(gates)]


def test_means_equal_a_plain_loop(case):
    model, neurons, images, means = case
    seen = {layer.name: [] for layer in neurons.layers}
    hooks = []
    for layer in neurons.layers:
        if isinstance(layer.module, nn.MultiheadAttention):
            continue
        axis = layer.axis
        hooks.append(
            layer.module.register_forward_hook(
                lambda _m, _i, out, name=layer.name, axis=axis: seen[name].append(out.movedim(axis, -1).flatten(0, -2))
            )
        )
    torch.backends.mha.set_fastpath_enabled(False)
    with torch.no_grad():
        for image in images:
            model(image[None])
    torch.backends.mha.set_fastpath_enabled(True)
    for hook in hooks:
        hook.remove()
    for layer in neurons.layers:
        if seen[layer.name]:
            torch.testing.assert_close(means[layer.responses], torch.cat(seen[layer.name]).mean(0))


def test_means_do_not_depend_on_the_batch_size(case):
    model, neurons, images, means = case
    torch.testing.assert_close(mean_responses_to(model, neurons, images.split(4)), means)


def test_gates_of_one_leave_the_network_as_it_is(case):
    model, neurons, images, means = case
    with torch.no_grad():
        plain = model(images)
        with gated(neurons, gates_for(neurons, torch.ones(1, neurons.n).requires_grad_()), means):
            torch.testing.assert_close(model(images), plain, rtol=1e-6, atol=1e-6)


def test_each_part_of_a_batch_has_its_own_gates(case):
    model, neurons, images, means = case
    gates = torch.rand(3, neurons.n)
    with torch.no_grad():
        with gated(neurons, gates_for(neurons, gates), means):
            together = model(images.repeat(3, *[1] * (images.ndim - 1))).view(3, len(images), -1)
        for gate, ours in zip(gates, together, strict=True):
            with gated(neurons, gates_for(neurons, gate[None]), means):
                torch.testing.assert_close(model(images), ours, rtol=1e-4, atol=1e-5)


def test_a_network_of_constants_answers_every_input_alike(case):
    model, neurons, images, means = case
    if isinstance(model, Transformer):
        pytest.skip("inputs also travel along the residual stream")
    with torch.no_grad(), ablated(neurons, torch.zeros(neurons.n, dtype=torch.bool), means):
        answers = model(images)
    torch.testing.assert_close(answers, answers[:1].expand_as(answers))


def test_every_neuron_matters_to_the_output(case):
    model, neurons, images, means = case
    with torch.no_grad():
        plain = model(images)
        for layer in neurons.layers:
            coalition = torch.ones(neurons.n, dtype=torch.bool)
            coalition[layer.neurons] = False
            with ablated(neurons, coalition, means):
                assert not torch.allclose(model(images), plain), layer.name
        torch.testing.assert_close(model(images), plain, rtol=0, atol=0)


def test_no_hook_survives_an_error_inside_the_block(case):
    model, neurons, _, means = case
    projections = [m.out_proj for m in model.modules() if isinstance(m, nn.MultiheadAttention)]
    with pytest.raises(ZeroDivisionError), ablated(neurons, torch.zeros(neurons.n, dtype=torch.bool), means):
        assert hooks_of(model)
        raise ZeroDivisionError
    with (
        pytest.raises((RuntimeError, AssertionError)),
        ablated(neurons, torch.zeros(neurons.n, dtype=torch.bool), means),
    ):
        model(torch.rand(3, 77))
    assert not hooks_of(model)
    assert projections == [m.out_proj for m in model.modules() if isinstance(m, nn.MultiheadAttention)]
    assert torch.backends.mha.get_fastpath_enabled()


def test_attention_heads_are_held_at_their_mean_before_the_projection():
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(4, 2, batch_first=True)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention, self.fc = attention, nn.Linear(4, 2)

        def forward(self, x):
            return self.fc(self.attention(x, x, x, need_weights=False)[0].mean(1))

    model, images = Model().eval(), torch.randn(3, 5, 4)
    neurons = find_neurons(model, images)
    means = mean_responses_to(model, neurons, [images])
    with torch.no_grad():
        with ablated(neurons, torch.zeros(2, dtype=torch.bool), means):
            constant = attention(images, images, images)[0]
        expected = attention.out_proj(means)
    torch.testing.assert_close(constant, expected.expand_as(constant))


def test_the_mean_pass_leaves_modes_statistics_gradients_and_randomness_alone():
    network = build_network("convnet", (1, 8, 8), 0, width=4)
    network.add_head(2)
    network.train()
    network.body.bn2.eval()
    images = torch.rand(5, 1, 8, 8)
    neurons = find_neurons(network, images)
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    state = torch.get_rng_state()
    mean_responses_to(network, neurons, [images])
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())
    assert network.training
    assert not network.body.bn2.training
    assert torch.equal(torch.get_rng_state(), state)
    assert all(parameter.grad is None and parameter.requires_grad for parameter in network.parameters())

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from snv.networks import build_network
from snv.neurons.find import find_neurons


def layers(neurons):
    return {layer.name: layer.n for layer in neurons.layers}


def rows_of(neurons, i):
    """What belongs to neuron ``i``: rows by name of the tensor."""
    rows = {owned.name: (owned.owner == i).nonzero()[:, 0].tolist() for owned in neurons.owned}
    return {name: found for name, found in rows.items() if found}


@pytest.fixture(scope="module")
def resnet():
    network = build_network("resnet18", (3, 16, 16), 0, width=4)
    network.add_head(3)
    network.add_head(2)
    return network, find_neurons(network, torch.rand(2, 3, 16, 16))


def test_all_filters_of_a_resnet_are_players_and_its_heads_are_not(resnet):
    network, neurons = resnet
    assert neurons.n == 300
    assert set(neurons.excluded) == {"heads.0", "heads.1"}
    assert find_neurons(network.body, torch.rand(2, 3, 16, 16)).n == 300


def test_every_parameter_of_the_body_belongs_to_exactly_one_neuron(resnet):
    network, neurons = resnet
    assert int(neurons.parameter_counts.sum()) == sum(p.numel() for p in network.body.parameters())
    held = [id(owned.tensor) for owned in neurons.owned if owned.role != "statistic"]
    assert sorted(held) == sorted(id(p) for p in network.body.parameters())


def test_names_indices_and_places_agree(resnet):
    _, neurons = resnet
    assert len(neurons.names) == neurons.n
    i = neurons.names.index("body.layer1.0.conv1[2]")
    layer = neurons.layers[int(neurons.layer_index[i])]
    assert (layer.name, i - layer.start) == ("body.layer1.0.conv1", 2)


def test_a_filter_owns_its_weights_and_its_norm_entries(resnet):
    network, neurons = resnet
    parts = rows_of(neurons, neurons.names.index("body.layer2.0.conv1[5]"))
    names = ["conv1.weight", "bn1.weight", "bn1.bias", "bn1.running_mean", "bn1.running_var"]
    assert parts == {f"body.layer2.0.{name}": [5] for name in names}
    weights = {owned.name: owned.tensor for owned in neurons.owned}
    assert weights["body.layer2.0.conv1.weight"] is network.body.layer2[0].conv1.weight


def test_values_are_handed_out_layer_by_layer(resnet):
    _, neurons = resnet
    values = torch.arange(neurons.n)
    assert torch.equal(torch.cat([part for _, part in neurons.by_layer(values)]), values)
    with pytest.raises(ValueError, match="one entry per neuron"):
        list(neurons.by_layer(values[1:]))


@pytest.mark.parametrize(("conv", "norm", "d"), [(nn.Conv1d, nn.BatchNorm1d, 1), (nn.Conv3d, nn.BatchNorm3d, 3)])
def test_one_and_three_dimensional_convolutions_have_neurons(conv, norm, d):
    model = nn.Sequential(conv(2, 3, 3), norm(3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(4))
    model(torch.rand(2, 2, *[5] * d))
    assert layers(find_neurons(model, torch.rand(2, 2, *[5] * d))) == {"0": 3}


def test_a_layer_norm_after_a_linear_layer_belongs_to_its_units():
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.ReLU(), nn.Linear(4, 2))
    neurons = find_neurons(model, torch.rand(2, 3))
    assert neurons.parameter_counts.tolist() == [3 + 1 + 2] * 4


NORMS_OF_A_LAYER = {
    "BatchNorm2d": nn.BatchNorm2d(4),
    "SyncBatchNorm": nn.SyncBatchNorm(4),
    "InstanceNorm2d": nn.InstanceNorm2d(4, affine=True, track_running_stats=True),
    "GroupNorm": nn.GroupNorm(2, 4),
    "LayerNorm": nn.LayerNorm((4, 5, 5)),
}


@pytest.mark.parametrize("norm", NORMS_OF_A_LAYER.values(), ids=NORMS_OF_A_LAYER)
def test_a_norm_layer_behind_one_layer_belongs_to_its_neurons(norm):
    model = nn.Sequential(nn.Conv2d(2, 4, 1), norm, nn.ReLU(), nn.Flatten(), nn.Linear(100, 2))
    neurons = find_neurons(model, torch.rand(2, 2, 5, 5))
    own = ["1.weight", "1.bias", *(["1.running_mean", "1.running_var"] if hasattr(norm, "running_mean") else [])]
    assert rows_of(neurons, 3) == {name: [3] for name in ["0.weight", "0.bias", *own]}


class PreActivation(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.norm, self.fc = nn.Linear(4, 4), nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(F.relu(self.norm(self.a(x) + self.b(x))))


def test_a_norm_of_a_sum_belongs_to_nobody_and_is_silent_where_all_summands_are():
    neurons = find_neurons(PreActivation(), torch.rand(2, 4))
    assert {owned.name for owned in neurons.owned} == {"a.weight", "a.bias", "b.weight", "b.bias"}
    (norm,) = neurons.norms
    assert norm.name == "norm"
    mask = torch.tensor([True, True, False, False, True, False, True, False])
    assert norm.silent(mask).tolist() == [False, False, False, True]


def test_heads_are_found_by_data_flow_and_can_be_overruled_by_name():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2), nn.LogSoftmax(1))
    example = torch.rand(2, 3)
    assert layers(find_neurons(model, example)) == {"0": 4, "2": 5}
    assert layers(find_neurons(model, example, exclude=["0"])) == {"2": 5}
    assert layers(find_neurons(model, example, include=["4"])) == {"0": 4, "2": 5, "4": 2}


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.twice, self.never, self.fc = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(F.relu(self.twice(F.relu(self.twice(x)))))


def test_a_layer_used_twice_is_one_set_of_players_and_an_unused_one_is_none():
    neurons = find_neurons(Shared(), torch.rand(2, 4))
    assert layers(neurons) == {"twice": 4}
    assert neurons.unused == ("never",)


def test_two_layers_with_one_parameter_are_refused():
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 2))
    model[2].weight = model[0].weight
    with pytest.raises(ValueError, match="exclude"):
        find_neurons(model, torch.rand(2, 3))
    assert find_neurons(model, torch.rand(2, 3), exclude=["2"]).n == 3


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.fc = nn.Linear(8, 3)

    def forward(self, x):
        return self.fc(self.encoder(x).mean(1))


def test_a_transformer_has_attention_heads_and_hidden_units():
    neurons = find_neurons(Transformer(), torch.rand(2, 5, 8))
    assert layers(neurons) == {
        f"encoder.layers.{i}.{part}": n for i in (0, 1) for part, n in [("self_attn", 2), ("linear1", 12)]
    }
    head = neurons.names.index("encoder.layers.0.self_attn[1]")
    rows = {name.rpartition(".")[2]: own for name, own in rows_of(neurons, head).items()}
    own = [*range(4, 8), *range(12, 16), *range(20, 24)]  # of queries, keys and values
    assert rows == {"in_proj_weight": own, "in_proj_bias": own}


def test_looking_for_neurons_leaves_the_model_as_it_was():
    model = Transformer().train()
    model.encoder.layers[0].eval()
    state = torch.get_rng_state()
    find_neurons(model, torch.rand(2, 5, 8, generator=torch.Generator()))
    assert torch.equal(torch.get_rng_state(), state)
    assert model.training
    assert not model.encoder.layers[0].training
    assert torch.backends.mha.get_fastpath_enabled()
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())

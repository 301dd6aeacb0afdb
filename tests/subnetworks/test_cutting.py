"""A subnetwork cut out is the masked network: the same answers, fewer weights, trainable, and back again."""

from __future__ import annotations

import dataclasses
import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from snv.errors import UserError
from snv.networks import build_network
from snv.networks.layers import KINDS
from snv.neurons.find import find_neurons
from snv.subnetworks.cutting import _size_after, compact, require_cuttable
from snv.subnetworks.folding import folded
from snv.subnetworks.select import select
from snv.subnetworks.subnetwork import masked, norm_of, subnetwork_of
from snv.subnetworks.trainee import write_back

CASES = {
    "resnet": ("resnet18", (3, 16, 16), {"width": 8}),
    "resnet, stride 2": ("resnet18", (3, 20, 12), {"width": 8, "stem": "3x3/2"}),
    "resnet, 7x7": ("resnet18", (3, 40, 40), {"width": 8, "stem": "7x7/2"}),
    "convnet": ("convnet", (1, 8, 8), {"width": 8}),
    "mlp": ("mlp", (1, 8, 8), {"hidden": [30, 20]}),
}


def cut(case, capacity=0.3, seed=0):
    name, shape, options = CASES[case]
    torch.manual_seed(seed)
    network = build_network(name, shape, seed, **options)
    network.add_head(5)
    images = torch.randn(12, *shape)
    network.train()(images)  # norm statistics that are not the initial ones
    network.eval()
    neurons = find_neurons(network.body, images[:2], include=["*"])
    mask = select(torch.rand(neurons.n), neurons.layer_index, int(capacity * neurons.n))
    subnetwork = subnetwork_of(network.body, neurons, mask)
    small, links = compact(network.body, network.head(0), neurons, subnetwork, shape)
    return network, images, neurons, subnetwork, small.eval(), links


@pytest.mark.parametrize("case", CASES)
def test_the_small_network_answers_like_the_masked_one(case):
    network, images, neurons, subnetwork, small, _ = cut(case)
    with torch.no_grad(), masked(network.body, neurons, subnetwork):
        expected = network(images, 0)
    with torch.no_grad():
        torch.testing.assert_close(small(images), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_a_mask_that_keeps_everything_gives_the_dense_network(case):
    network, images, _, _, small, _ = cut(case, capacity=1.0)
    with torch.no_grad():
        torch.testing.assert_close(small(images), network(images, 0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_what_the_small_network_learns_is_written_back(case):
    network, images, neurons, subnetwork, small, links = cut(case)
    optimizer = torch.optim.SGD([p for p in small.parameters() if p.requires_grad], lr=0.05)
    small.train()
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(small(images), torch.arange(12) % 5).backward()
        optimizer.step()
    small.eval()
    write_back(links)
    network.eval()
    learned = subnetwork_of(network.body, neurons, subnetwork.mask)
    with torch.no_grad(), masked(network.body, neurons, learned):
        torch.testing.assert_close(network(images, 0), small(images), rtol=1e-3, atol=1e-4)


def test_writing_back_touches_no_row_outside_the_mask():
    _, _, neurons, subnetwork, small, links = cut("resnet")
    mask = subnetwork.mask
    before = {owned.name: owned.tensor.detach().clone() for owned in neurons.owned}
    with torch.no_grad():
        for parameter in small.parameters():
            parameter += 1
    write_back(links)
    for owned in neurons.owned:
        if owned.role == "weight":
            assert torch.equal(owned.tensor[~mask[owned.owner]], before[owned.name][~mask[owned.owner]])
            assert not torch.equal(owned.tensor[mask[owned.owner]], before[owned.name][mask[owned.owner]])


BIASED = {
    "linear": lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 9), nn.ReLU(), nn.Linear(9, 8)),
    "padded convolutions": lambda: nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 8, 3, padding=1), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    ),
}
NOT_LEARNED = {"-0": -0.0, "0": 0.0, "a number": 0.3, "infinite": math.inf, "NaN": math.nan}


@pytest.mark.parametrize("bias", NOT_LEARNED.values(), ids=NOT_LEARNED)
@pytest.mark.parametrize("make", BIASED.values(), ids=BIASED)
def test_writing_back_leaves_the_bits_of_biases_that_were_not_learned(make, bias):
    torch.manual_seed(0)
    body, head = make(), nn.Linear(8, 2)
    neurons = find_neurons(body, torch.zeros(2, 1, 8, 8), include=["*"])
    biases = [owned.tensor for owned in neurons.owned if owned.role == "bias"]
    with torch.no_grad():
        for tensor in biases:
            tensor[::2] = bias
    mask = torch.arange(neurons.n) % 3 != 0
    _, links = compact(body, head, neurons, subnetwork_of(body, neurons, mask), (1, 8, 8))
    before = [tensor.detach().clone().view(torch.int32) for tensor in biases]
    write_back(links)
    assert len(biases) == 2
    assert all(torch.equal(x.detach().view(torch.int32), old) for x, old in zip(biases, before, strict=True))


def test_a_learned_bias_is_written_back_to_the_last_bit():
    *_, links = cut("mlp")
    with torch.no_grad():
        for link in links:
            link.small.bias.copy_(torch.randn(len(link.rows)) * 1e-3)
            link.small.bias[0] = -0.0
    write_back(links)
    assert len(links) == 3
    for link in links:
        found, learned = link.dense.bias[link.rows], link.small.bias
        assert torch.equal(found.view(torch.int32), learned.view(torch.int32))


def test_a_tenth_of_the_neurons_is_a_few_percent_of_the_weights():
    network, *_, small, _ = cut("resnet", capacity=0.1)
    dense = sum(p.numel() for p in network.parameters())
    assert sum(p.numel() for p in small.parameters()) < 0.04 * dense


def test_noise_outside_the_mask_does_not_reach_the_answers():
    network, images, neurons, subnetwork, _, _ = cut("resnet")
    mask = subnetwork.mask
    with torch.no_grad(), masked(network.body, neurons, subnetwork):
        before = network(images, 0)
    with torch.no_grad():
        for owned in neurons.owned:
            if owned.role == "weight":
                owned.tensor[~mask[owned.owner]] = torch.randn_like(owned.tensor[~mask[owned.owner]]) * 100
        with masked(network.body, neurons, subnetwork):
            assert torch.equal(network(images, 0), before)


def test_an_empty_layer_is_refused():
    network, _, neurons, subnetwork, *_ = cut("convnet")
    mask = subnetwork.mask.clone()
    mask[[name.startswith("conv2") for name in neurons.names]] = False
    empty = subnetwork_of(network.body, neurons, mask)
    with pytest.raises(UserError, match=r"cuts the network in two: conv2 keeps 0 neurons"):
        compact(network.body, network.head(0), neurons, empty, (1, 8, 8))


def test_a_layer_that_cannot_be_cut_is_named():
    body = nn.Sequential(nn.Conv2d(4, 4, 3, groups=4), nn.ReLU())
    neurons = find_neurons(body, torch.zeros(2, 4, 8, 8), include=["*"])
    with pytest.raises(UserError, match="Conv2d layers cannot be cut out here, only convolutions without groups"):
        require_cuttable(body, neurons, (4, 8, 8))


class Own(nn.Module):
    """Someone's network: two convolutions, and ``join`` says what becomes of their maps."""

    def __init__(self, join):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(3, 6, 3, padding=1)
        self.norm, self.scaled = nn.BatchNorm2d(6, affine=False), nn.BatchNorm2d(6)
        self.positions, self.softplus, self.cubes = nn.LayerNorm((8, 8)), nn.Softplus(), nn.AvgPool3d(1)
        self.scale = nn.Parameter(torch.ones(6, 1, 1))
        self.register_buffer("offset", torch.ones(6, 1, 1))
        self.join = join

    def forward(self, images):
        return self.join(self, self.a(images), self.b(images)).mean((2, 3))


REFUSED = {
    "a parameter": (
        lambda own, a, b: a * own.scale + b,
        r"'mul' reads the network's tensor 'scale' itself.*Replace",
    ),
    "a buffer": (lambda own, a, b: a + (b - own.offset), r"'sub' reads the network's tensor 'offset' itself"),
    "a weight": (lambda own, a, b: F.conv2d(a, own.scale[None]), r"reads the network's tensor 'scale' itself"),
    "a new tensor": (lambda own, a, b: a + b * torch.ones(1), r"'mul' reads the network's tensor '_tensor_constant"),
    "a scaled sum": (lambda own, a, b: torch.add(a, b, alpha=2), r"The operation 'add' cannot be cut out"),
    "a broadcast": (lambda own, a, b: a + F.adaptive_avg_pool2d(b, 1), r"found \(6, 8, 8\) and \(6, 1, 1\)"),
    "channels and positions": (lambda own, a, b: a.flatten(2)[..., None], "The operation 'flatten' cannot be cut out"),
    "other rows": (lambda own, a, b: a.view(-1, 6, 64, 1), "The operation 'view' cannot be cut out"),
    "a bare norm": (lambda own, a, b: own.norm(a), "BatchNorm2d layer turns the zeros of silent .* Give it weights"),
    "two layers, one norm": (lambda own, a, b: own.scaled(a) + own.scaled(b), "BatchNorm2d .* let it read one layer"),
    "a sigmoid": (lambda own, a, b: a.sigmoid(), "'sigmoid' turns the zeros of silent .* Use one that leaves 0 as it"),
    "a softplus": (lambda own, a, b: own.softplus(a), "'Softplus' turns the zeros of silent"),
    "dropout for ever": (
        lambda own, a, b: F.dropout(a),
        "True when that answers .* Give it self.training, or use nn.Dropout",
    ),
    "dropout never": (lambda own, a, b: F.dropout2d(a, training=False), "False when it trains.*or use nn.Dropout2d"),
    "another dropout for ever": (
        lambda own, a, b: torch.dropout(a, 0.5, True),
        "'dropout' should drop only while",
    ),
    "a norm of positions": (lambda own, a, b: own.positions(a), "LayerNorm layers cannot be cut out here"),
    "another pool": (lambda own, a, b: own.cubes(a), "AvgPool3d layers cannot be cut out here"),
}


@pytest.mark.parametrize(("join", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_cut_is_told_in_words(join, message):
    body = Own(join).eval()
    neurons = find_neurons(body, torch.zeros(2, 3, 8, 8), include=["*"])
    with pytest.raises(UserError, match=message):
        require_cuttable(body, neurons, (3, 8, 8))


DROPPED = {
    "dropout": (lambda own, a: F.dropout(a, 0.4, own.training), nn.Dropout),
    "dropout in place": (lambda own, a: F.dropout(a.relu(), p=0.4, training=own.training, inplace=True), nn.Dropout),
    "dropout2d": (lambda own, a: F.dropout2d(a, 0.4, own.training), nn.Dropout2d),
    "alpha_dropout": (lambda own, a: F.alpha_dropout(a, 0.4, own.training), nn.AlphaDropout),
    "feature_alpha_dropout": (lambda own, a: F.feature_alpha_dropout(a, 0.4, own.training), nn.FeatureAlphaDropout),
    "torch's own": (lambda own, a: torch.dropout(a, 0.4, own.training), nn.Dropout),
    "torch's own, by name": (lambda own, a: torch.dropout(a, p=0.4, train=own.training), nn.Dropout),
}


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(("function", "layer"), DROPPED.values(), ids=DROPPED)
def test_dropout_as_a_function_is_cut_as_the_layer_of_its_name(function, layer, training):
    body, head, images = Own(lambda own, a, b: function(own, a)).eval(), nn.Linear(6, 2), torch.randn(4, 3, 8, 8)
    neurons = find_neurons(body, images, include=["*"])
    require_cuttable(body, neurons, (3, 8, 8))
    half = subnetwork_of(body, neurons, torch.arange(neurons.n) % 2 == 0)
    small, _ = compact(body.train(training), head, neurons, half, (3, 8, 8))
    assert all(module.training == training for module in body.modules()), "every module has its own mode back"
    (found,) = [module for module in small.modules() if isinstance(module, nn.modules.dropout._DropoutNd)]
    assert type(found) is layer and found.p == 0.4
    with torch.no_grad(), masked(body.eval(), neurons, half):
        torch.testing.assert_close(small.eval()(images), head(body(images)), rtol=1e-4, atol=1e-5)
    small.train()
    assert not torch.equal(small(images), small(images))


@pytest.mark.parametrize("case", ["resnet", "convnet"])
def test_cutting_leaves_the_dense_network_alone_and_takes_the_norm_layers_of_the_task(case):
    network, _, neurons, subnetwork, *_ = cut(case)
    norm = {name: x + 0.5 for name, x in subnetwork.norm.items()}
    other = dataclasses.replace(subnetwork, norm=norm)
    before = {name: x.clone() for name, x in network.state_dict().items()}
    watched = [x._version for x in network.state_dict().values()]
    _, links = compact(network.body, network.head(0), neurons, other, CASES[case][1])
    assert [x._version for x in network.state_dict().values()] == watched, "not even for a moment"
    assert all(torch.equal(x, before[name]) for name, x in network.state_dict().items())
    names = {module: name for name, module in network.body.named_modules()}
    norms = [link for link in links if link.columns is None]
    assert norms
    for link in norms:
        for part in ("weight", "bias", "running_mean", "running_var"):
            assert torch.equal(getattr(link.small, part), norm[f"{names[link.dense]}.{part}"][link.rows])


FLAT = {
    "torch.flatten": lambda x: torch.flatten(x, 1),
    "flatten": lambda x: x.flatten(start_dim=1),
    "view": lambda x: x.view(-1, 384),
    "reshape": lambda x: x.reshape((-1, 384)),
    "module": nn.Flatten(),
}


class Flat(nn.Module):
    def __init__(self, flat):
        super().__init__()
        self.conv, self.flat = nn.Conv2d(3, 6, 3, padding=1), flat

    def forward(self, images):
        return self.flat(self.conv(images).relu())


@pytest.mark.parametrize("flat", FLAT.values(), ids=FLAT)
def test_maps_become_features_in_any_words(flat):
    body, head = Flat(flat).eval(), nn.Linear(384, 2)
    images = torch.randn(3, 3, 8, 8)
    neurons = find_neurons(body, images, include=["*"])
    half = subnetwork_of(body, neurons, torch.arange(6) % 2 == 0)
    small, _ = compact(body, head, neurons, half, (3, 8, 8))
    with torch.no_grad(), masked(body, neurons, half):
        torch.testing.assert_close(small(images), head(body(images)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("moved", ["network", "head"])
@pytest.mark.parametrize("case", CASES)
def test_the_small_network_is_where_the_dense_one_is(case, moved, monkeypatch):
    """Another device that every machine has is "meta", whose tensors have no values, so no `if` can ask for them."""
    network, images, neurons, subnetwork, *_ = cut(case)
    (network if moved == "network" else network.head(0)).to("meta")
    monkeypatch.setattr(torch.Tensor, "__bool__", lambda _: False)
    small, _ = compact(network.body, network.head(0), neurons, subnetwork, CASES[case][1])
    assert {x.device.type for x in [*small.parameters(), *small.buffers()]} == {"meta"}
    assert small(images.to("meta")).shape == (12, 5)
    assert small.features(images.to("meta")).device.type == "meta"


@pytest.mark.parametrize("case", CASES)
def test_the_small_network_has_the_type_of_the_dense_one(case):
    network, images, neurons, subnetwork, *_ = cut(case)
    network, images = network.double(), images.double()
    subnetwork = subnetwork_of(network.body, neurons, subnetwork.mask)
    small, _ = compact(network.body, network.head(0), neurons, subnetwork, CASES[case][1])
    assert {x.dtype for x in [*small.parameters(), *small.buffers()] if x.is_floating_point()} == {torch.float64}
    with torch.no_grad(), masked(network.body, neurons, subnetwork):
        expected = network(images, 0)
    with torch.no_grad():
        torch.testing.assert_close(small.eval()(images), expected)
        torch.testing.assert_close(folded(small)(images), expected)


@pytest.mark.parametrize("case", ["resnet", "resnet, stride 2", "resnet, 7x7", "convnet"])
@pytest.mark.parametrize("capacity", [0.1, 0.3, 0.8])
def test_folded_norm_layers_change_nothing_but_the_number_of_layers(case, capacity):
    _, images, _, _, small, _ = cut(case, capacity)
    plain = folded(small)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in plain.modules())
    assert any(isinstance(module, nn.BatchNorm2d) for module in small.modules()), "the original is untouched"
    with torch.no_grad():
        torch.testing.assert_close(plain(images), small(images), rtol=1e-4, atol=1e-5)


def test_features_come_in_the_order_of_the_dense_network():
    network, images, neurons, subnetwork, small, _ = cut("resnet", 0.3)
    with torch.no_grad(), masked(network.body, neurons, subnetwork):
        dense = network.body(images)
        found = small.features(images)
    moving = dense.std(0) > 1e-6
    torch.testing.assert_close(found[:, found.std(0) > 1e-6], dense[:, moving], rtol=1e-4, atol=1e-5)


def maps(norm: nn.Module) -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(3, 8, 3, padding=1), norm, nn.ReLU(), nn.Conv2d(8, 6, 3, padding=1)),
        *(nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    )


def features(norm: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 8), norm, nn.GELU(), nn.Linear(8, 6))


class NormOfSum(nn.Module):
    """As in a ResNet with norm layers first."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.a, self.b, self.c = (nn.Conv2d(n, 8, 3, padding=1) for n in (3, 8, 8))
        self.norm = norm

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.a(images)
        x = x + self.b(x.relu())
        return self.c(self.norm(x).relu()).mean((2, 3))


NORMED = {
    "BatchNorm2d": lambda: maps(nn.BatchNorm2d(8)),
    "BatchNorm2d without statistics": lambda: maps(nn.BatchNorm2d(8, track_running_stats=False)),
    "BatchNorm1d": lambda: features(nn.BatchNorm1d(8)),
    "SyncBatchNorm": lambda: maps(nn.SyncBatchNorm(8)),
    "InstanceNorm2d": lambda: maps(nn.InstanceNorm2d(8)),
    "InstanceNorm2d with weights": lambda: maps(nn.InstanceNorm2d(8, affine=True)),
    "InstanceNorm2d with statistics": lambda: maps(nn.InstanceNorm2d(8, affine=True, track_running_stats=True)),
    "GroupNorm": lambda: maps(nn.GroupNorm(2, 8)),
    "GroupNorm of single channels": lambda: maps(nn.GroupNorm(8, 8)),
    "LayerNorm": lambda: features(nn.LayerNorm(8)),
    "LayerNorm without bias": lambda: features(nn.LayerNorm(8, bias=False)),
    "LayerNorm of maps": lambda: maps(nn.LayerNorm((8, 8, 8))),
    "a sum, BatchNorm2d": lambda: NormOfSum(nn.BatchNorm2d(8)),
    "a sum, GroupNorm": lambda: NormOfSum(nn.GroupNorm(4, 8)),
    "a sum, InstanceNorm2d": lambda: NormOfSum(nn.InstanceNorm2d(8)),
}


def normed(case):
    """A network whose norm layers have learned something, some of its neurons, and images."""
    torch.manual_seed(0)
    body, images = NORMED[case](), torch.randn(7, 3, 8, 8)
    with torch.no_grad():
        for parameter in body.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        body.train()(images)
    neurons = find_neurons(body.eval(), images[:2], include=["*"])
    mask = torch.arange(neurons.n) % 3 == 0
    return body, nn.Linear(body(images).shape[1], 4), neurons, subnetwork_of(body, neurons, mask), images


@pytest.mark.parametrize("case", NORMED)
def test_with_any_norm_layer_the_small_network_is_the_masked_one_also_in_its_gradients(case):
    body, head, neurons, subnetwork, images = normed(case)
    require_cuttable(body, neurons, (3, 8, 8))
    small, links = compact(body, head, neurons, subnetwork, (3, 8, 8))
    with masked(body, neurons, subnetwork):
        expected = head(body(images))
        expected.square().sum().backward()
    small.eval()(images).square().sum().backward()
    torch.testing.assert_close(small(images), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(folded(small)(images), expected, rtol=1e-4, atol=1e-5)
    for link in links:
        for name, parameter in link.small.named_parameters():
            dense = getattr(link.dense, name).grad[link.rows]
            wanted = dense if link.columns is None or name == "bias" else dense[:, link.columns]
            torch.testing.assert_close(parameter.grad, wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("case", NORMED)
def test_with_any_norm_layer_what_is_learned_is_written_back_and_other_tasks_keep_their_norm_state(case):
    body, head, neurons, subnetwork, images = normed(case)
    outside = subnetwork_of(body, neurons, torch.ones(neurons.n, dtype=torch.bool))
    small, links = compact(body, head, neurons, subnetwork, (3, 8, 8))
    optimizer = torch.optim.SGD(small.parameters(), lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(small.train()(images), torch.arange(7) % 4).backward()
        optimizer.step()
    with norm_of(body, subnetwork):
        write_back(links)
        learned = subnetwork_of(body, neurons, subnetwork.mask)
    with torch.no_grad(), masked(body, neurons, learned):
        torch.testing.assert_close(head(body(images)), small.eval()(images), rtol=1e-3, atol=1e-4)
    now = subnetwork_of(body, neurons, torch.ones(neurons.n, dtype=torch.bool))
    assert all(torch.equal(x, now.norm[name]) for name, x in outside.norm.items())
    trained = [name for name, x in learned.norm.items() if not torch.equal(x, subnetwork.norm[name])]
    assert trained or not any("weight" in name or "running" in name for name in learned.norm)


def test_every_kind_of_norm_that_can_be_cut_is_tested():
    cuttable = {kind.__name__ for kind, row in KINDS.items() if row.family == "norm" and row.cut is not None}
    assert {case.removeprefix("a sum, ").split()[0] for case in NORMED} == cuttable


def test_a_layer_called_twice_is_refused():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Conv2d(3, 3, 3, padding=1)

        def forward(self, images):
            return self.a(self.a(images).relu()).mean((2, 3))

    body = Twice()
    neurons = find_neurons(body, torch.zeros(2, 3, 8, 8), include=["*"])
    with pytest.raises(UserError, match=r"calls a Conv2d layer twice; .* Give each call its own layer"):
        require_cuttable(body, neurons, (3, 8, 8))


@pytest.mark.parametrize("padding", [0, 1, (2, 1), "same", "valid"])
@pytest.mark.parametrize("stride", [1, 2, (1, 3)])
def test_the_size_of_maps_is_computed_as_a_convolution_has_it(padding, stride):
    if padding == "same" and stride != 1:
        pytest.skip("PyTorch has no such layer")
    for kernel, dilation, size in itertools.product((1, 3, (3, 5)), (1, 2), ((9, 9), (16, 11))):
        layer = nn.Conv2d(2, 3, kernel, stride, padding, dilation)
        assert _size_after(layer, size) == layer(torch.zeros(1, 2, *size)).shape[2:]

"""A gated body is the body with its ReLUs multiplied by gates, and knows which gates guard a weight."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from snv.components.attended import Attended
from snv.errors import UserError
from snv.networks import build_network
from snv.networks.body import Body

SHAPES = {"resnet18": (3, 8, 8), "convnet": (1, 8, 8), "mlp": (1, 4, 4)}
OPTIONS = {"resnet18": {"width": 4}, "convnet": {"width": 4}, "mlp": {"hidden": [7, 5]}}


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def body_of(name: str) -> Body:
    return build_network(name, SHAPES[name], 0, **OPTIONS[name]).body.eval()


def images_for(name: str, n: int = 3) -> torch.Tensor:
    return torch.randn(n, *SHAPES[name], generator=rng(1))


def by_hand(name: str, body, x, gates):
    """The same forward passes, with a gate written behind every ReLU."""
    gates = iter(gates)

    def gated(x):
        g = next(gates)
        return F.relu(x) * (g[None, :, None, None] if x.ndim == 4 else g[None])

    if name == "mlp":
        x = x.flatten(1)
        for layer in body.layers:
            x = gated(layer(x))
        return x
    if name == "convnet":
        x = gated(body.bn2(body.conv2(gated(body.bn1(body.conv1(x))))))
        x = gated(body.bn3(body.conv3(F.max_pool2d(x, 2))))
        return gated(body.bn4(body.conv4(x))).mean((2, 3))
    x = gated(body.bn1(body.conv1(x)))
    for stage in (body.layer1, body.layer2, body.layer3, body.layer4):
        for block in stage:
            hidden = gated(block.bn1(block.conv1(x)))
            x = gated(block.bn2(block.conv2(hidden)) + block.shortcut(x))
    return x.mean((2, 3))


@pytest.mark.parametrize("name", SHAPES)
def test_features_are_those_of_gates_written_into_the_forward_pass(name):
    body = body_of(name)
    attended = Attended(body)
    gates = [torch.rand(n, generator=rng(2)) for n in attended.sizes]
    torch.testing.assert_close(attended(images_for(name), gates), by_hand(name, body, images_for(name), gates))


@pytest.mark.parametrize("name", SHAPES)
def test_open_gates_change_nothing(name):
    body = body_of(name)
    attended = Attended(body)
    opened = [torch.ones(n) for n in attended.sizes]
    assert torch.equal(attended(images_for(name), opened), body(images_for(name)))


def test_a_resnet_has_gates_behind_its_stem_and_twice_in_every_block():
    attended = Attended(body_of("resnet18"))
    assert attended.sizes == [4, *[4] * 4, *[8] * 4, *[16] * 4, *[32] * 4]
    assert Attended(body_of("convnet")).sizes == [4, 4, 8, 8]
    assert Attended(body_of("mlp")).sizes == [7, 5]


def test_convolutions_of_a_resnet_stand_between_the_gates_of_the_paper():
    body = body_of("resnet18")
    between = {wire.module: (wire.reads, wire.feeds) for wire in Attended(body).wires}
    assert between[body.conv1] == (None, 0)
    blocks = [block for stage in (body.layer1, body.layer2, body.layer3, body.layer4) for block in stage]
    for i, block in enumerate(blocks):
        before, inside, after = 2 * i, 2 * i + 1, 2 * i + 2
        assert between[block.conv1] == (before, inside)
        assert between[block.conv2] == (inside, after)
        for shortcut in block.shortcut[:1]:
            assert between[shortcut] == (before, after)
    assert len(between) == 1 + 2 * 8 + 3


@pytest.mark.parametrize("name", SHAPES)
def test_the_share_in_use_is_the_smaller_of_both_gates_entry_by_entry(name):
    attended = Attended(body_of(name))
    used = [torch.rand(n, generator=rng(3)) for n in attended.sizes]
    for wire in attended.wires:
        parts = list(wire.share_in_use(used))
        weight, share = parts[0]
        for o in range(weight.shape[0]):
            for i in range(weight.shape[1]):
                expected = used[wire.feeds][o] if wire.reads is None else min(used[wire.feeds][o], used[wire.reads][i])
                assert share[o, i] == expected
        if wire.module.bias is not None:
            assert parts[1][0] is wire.module.bias
            assert torch.equal(parts[1][1], used[wire.feeds])


@pytest.mark.parametrize("name", SHAPES)
def test_with_hard_gates_a_weight_that_is_not_in_use_can_be_anything(name):
    body = body_of(name)
    attended = Attended(body)
    gates = [(torch.rand(n, generator=rng(4)) > 0.4).float() for n in attended.sizes]
    before = attended(images_for(name), gates)
    with torch.no_grad():
        for wire in attended.wires:
            for weight, share in wire.share_in_use(gates):
                weight[share == 0] = 1e4
    assert torch.equal(attended(images_for(name), gates), before)


def test_a_state_stands_in_for_the_norm_layers_of_the_body():
    body = body_of("convnet")
    attended = Attended(body)
    opened = [torch.ones(n) for n in attended.sizes]
    before = attended(images_for("convnet"), opened)
    own = {name: value.clone() for name, value in body.state_dict().items() if name.startswith("bn")}
    with torch.no_grad():
        for name, value in body.state_dict().items():
            if name.startswith("bn") and value.is_floating_point():
                value.add_(1)
    assert not torch.equal(attended(images_for("convnet"), opened), before)
    assert torch.equal(attended(images_for("convnet"), opened, own), before)


class Tall(Body):
    """Its features come through a ReLU and a flattening, several to a channel."""

    def __init__(self):
        super().__init__()
        self.conv, self.linear, self.n_features = nn.Conv2d(1, 2, 1), nn.Linear(18, 3), 3

    def forward(self, images):
        return F.relu(self.linear(F.relu(self.conv(images)).flatten(1)))


def test_columns_behind_a_flattening_belong_to_the_gate_of_their_channel():
    attended = Attended(Tall())
    used = [torch.tensor([1.0, 0.0]), torch.ones(3)]
    share = next(attended.wires[1].share_in_use(used))[1]
    assert torch.equal(share, torch.tensor([1.0] * 9 + [0.0] * 9).expand(3, 18))


class Unruly(Body):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.n_features = nn.Linear(4, 4), nn.Linear(4, 3), 3

    def forward(self, images):
        return F.relu(self.second(self.first(images.flatten(1))))


def test_a_layer_that_no_gate_stands_behind_is_refused():
    with pytest.raises(UserError, match="behind ReLUs, but second reads a layer without one"):
        Attended(Unruly())

from __future__ import annotations

import pytest
import torch
from torch import nn

from snv.errors import UserError
from snv.networks import NETWORKS, build_network, resolve
from snv.networks.macs import macs

SHAPES = {"resnet18": (3, 32, 32), "convnet": (1, 8, 8), "mlp": (1, 8, 8)}


def small(name: str, seed: int = 0):
    options = {"resnet18": {"width": 8}, "convnet": {"width": 8}, "mlp": {"hidden": [16, 16]}}[name]
    return build_network(name, SHAPES[name], seed, **options)


def test_the_32_pixel_resnet_has_the_counts_of_the_paper():
    body = build_network("resnet18", (3, 32, 32), 0).body
    convolutions = [m for m in body.modules() if isinstance(m, nn.Conv2d)]
    norms = [m for m in body.modules() if isinstance(m, nn.BatchNorm2d)]
    assert sum(c.out_channels for c in convolutions) == 4_800
    assert sum(c.weight.numel() for c in convolutions) == 11_159_232
    assert sum(n.weight.numel() + n.bias.numel() for n in norms) == 9_600
    assert all(c.bias is None for c in convolutions)


def test_multiply_accumulates_equal_the_count_by_hand():
    stem = 32 * 32 * 64 * 3 * 9
    block = 32 * 32 * 64 * 64 * 9  # a stage later: a quarter of the positions, four times the weights
    stages = 4 * block + 3 * (block // 2 + 3 * block + 16 * 16 * 128 * 64)
    assert macs(build_network("resnet18", (3, 32, 32), 0).body, (3, 32, 32)) == stem + stages == 555_417_600


def test_counting_changes_nothing():
    network = small("resnet18").body.train()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    state = torch.get_rng_state()
    macs(network, (3, 32, 32))
    assert network.training
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())
    assert all(parameter.grad is None and parameter.device.type == "cpu" for parameter in network.parameters())


@pytest.mark.parametrize("name", NETWORKS)
def test_the_same_seed_gives_the_same_weights_and_disturbs_no_other_randomness(name):
    state = torch.get_rng_state()
    one, two, other = small(name).state_dict(), small(name).state_dict(), small(name, seed=1).state_dict()
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(one[key], two[key]) for key in one)
    assert any(not torch.equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize("name", NETWORKS)
def test_heads_are_joined_in_task_order(name):
    network = small(name).eval()
    network.add_head(3)
    network.add_head(2)
    images = torch.rand(4, *SHAPES[name])
    assert network.head_sizes == [3, 2]
    assert network.features(images).shape == (4, network.body.n_features)
    torch.testing.assert_close(network(images), torch.cat([network(images, task=0), network(images, task=1)], 1))


def test_a_head_depends_on_the_seed_and_its_first_class_only():
    eager, lazy = small("mlp"), small("mlp")
    eager.add_head(3)
    eager.add_head(2)
    fresh = lazy.fresh_head(3, 2)
    assert torch.equal(fresh.weight, eager.heads[1].weight)
    assert torch.equal(fresh.bias, eager.heads[1].bias)
    assert len(lazy.heads) == 0


def test_he_initialisation_has_the_right_spread():
    weight = build_network("resnet18", (3, 32, 32), 0).body.layer3[0].conv2.weight
    assert weight.std().item() == pytest.approx((2 / (256 * 9)) ** 0.5, rel=0.01)


@pytest.mark.parametrize(("stem", "size"), [("3x3", 4), ("3x3/2", 2), ("3x3/4", 1), ("7x7/2", 1)])
def test_stems_shrink_the_image_by_their_stride(stem, size):
    body = build_network("resnet18", (3, 32, 32), 0, width=4, stem=stem).body
    sizes = []
    body.layer4.register_forward_hook(lambda _m, _i, out: sizes.append(out.shape[-1]))
    body(torch.rand(2, 3, 32, 32))
    assert sizes == [size]


@pytest.mark.parametrize(("pixels", "name"), [(8, "convnet"), (28, "convnet"), (32, "resnet18"), (224, "resnet18")])
def test_auto_looks_at_the_image_size(pixels, name):
    assert resolve("auto", (3, pixels, pixels)) == name


def test_large_images_get_the_large_stem():
    assert build_network("auto", (3, 224, 224), 0, width=4).body.conv1.kernel_size == (7, 7)
    assert build_network("auto", (3, 64, 64), 0, width=4).body.conv1.kernel_size == (3, 3)


@pytest.mark.parametrize(
    ("name", "options", "word"),
    [
        ("resnet", {}, "resnet18"),
        ("mlp", {"width": 3}, "hidden"),
        ("convnet", {"stem": "3x3"}, "width"),
        ("resnet18", {"stem": "5x5"}, "7x7/2"),
        ("resnet18", {"width": 0}, "at least 1"),
        ("mlp", {"hidden": []}, "at least 1"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_does(name, options, word):
    with pytest.raises(UserError, match=word):
        build_network(name, (1, 8, 8), 0, **options)


def test_logits_without_a_head_are_refused():
    with pytest.raises(ValueError, match="add_head"):
        small("mlp")(torch.rand(1, 1, 8, 8))

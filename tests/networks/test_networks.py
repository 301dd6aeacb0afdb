from __future__ import annotations

import pytest
import torch

from snv.errors import UserError
from snv.networks import NETWORKS, build_network, resolve

SHAPES = {"resnet18": (3, 32, 32), "convnet": (1, 8, 8), "mlp": (1, 8, 8)}


def small(name: str, seed: int = 0):
    options = {"resnet18": {"width": 8}, "convnet": {"width": 8}, "mlp": {"hidden": [16, 16]}}[name]
    return build_network(name, SHAPES[name], seed, **options)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_same_seed_gives_the_same_weights_and_disturbs_no_other_randomness(name):
    state = torch.get_rng_state()
    one, two, other = small(name).state_dict(), small(name).state_dict(), small(name, seed=1).state_dict()
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(one[key], two[key]) for key in one)
    assert any(not torch.equal(one[key], other[key]) for key in one)


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

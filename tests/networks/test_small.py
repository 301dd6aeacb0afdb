"""The small bodies give one feature vector per image, whatever its size."""

from __future__ import annotations

import pytest
import torch

from snv.networks.small import MLP, ConvNet


def rng() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 28, 28), (2, 5, 9)], ids=str)
def test_a_convnet_has_twice_its_width_in_features(shape):
    body = ConvNet(rng(), shape[0], width=6)
    assert body(torch.rand(3, *shape)).shape == (3, body.n_features) == (3, 12)


def test_an_mlp_is_its_layers_each_followed_by_a_ramp():
    body = MLP(rng(), (1, 2, 3), (5, 4))
    images = torch.randn(3, 1, 2, 3)
    first, second = body.layers
    expected = second(first(images.flatten(1)).clamp(min=0)).clamp(min=0)
    assert torch.equal(body(images), expected)
    assert body.n_features == 4

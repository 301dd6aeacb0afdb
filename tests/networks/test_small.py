"""The small bodies give one feature vector per image, whatever its size."""

from __future__ import annotations

import pytest
import torch

from snv.networks.small import MLP, ConvNet, PlainConvNet


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


def test_the_convnet_without_norm_layers_has_the_authors_size():
    body = PlainConvNet(rng(), (3, 32, 32))
    assert sum(p.numel() for p in body.parameters()) + 100 * 1025 == 8_752_292
    assert body(torch.rand(2, 3, 32, 32)).shape == (2, body.n_features) == (2, 1024)
    assert abs(float(body.hidden.weight.detach().std()) / (2 / 8192) ** 0.5 - 1) < 0.01
    assert not body.hidden.bias.any()


def test_it_takes_images_that_four_does_not_divide():
    assert PlainConvNet(rng(), (1, 9, 6), width=2)(torch.rand(3, 1, 9, 6)).shape == (3, 32)

"""Layers as they are initialised, from a generator and nothing else."""

from __future__ import annotations

import pytest
import torch

from snv.networks.body import convolution, linear, pooled


def rng() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_he_initialisation_has_the_right_spread():
    layer = convolution(256, 256, 3, rng=rng())
    assert layer.weight.std().item() == pytest.approx((2 / (256 * 9)) ** 0.5, rel=0.01)
    assert layer.bias is None


def test_a_linear_layer_is_uniform_within_one_over_the_root_of_its_inputs():
    layer = linear(100, 400, rng=rng())
    assert 0.0999 < layer.weight.abs().max().item() <= 0.1
    assert 0.09 < layer.bias.abs().max().item() <= 0.1
    assert layer.weight.mean().item() == pytest.approx(0, abs=1e-3)


def test_a_convolution_keeps_the_size_of_the_image_unless_it_has_a_stride():
    images = torch.rand(2, 3, 9, 9)
    assert convolution(3, 4, 5, rng=rng())(images).shape == (2, 4, 9, 9)
    assert convolution(3, 4, 3, stride=2, rng=rng())(images).shape == (2, 4, 5, 5)


def test_pooling_is_the_mean_over_positions():
    assert pooled(torch.arange(8.0).view(1, 2, 2, 2)).tolist() == [[1.5, 5.5]]

"""Packed convolutions answer as they did, and stay the layers they were."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from snv.networks.packing import pack


def convolutions(channels: int) -> nn.Module:
    layers = (
        nn.Conv2d(channels, 13, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(13, 10, 1, stride=2, bias=False),
        nn.Conv2d(10, 10, 3, groups=2, dilation=2),
    )
    return nn.Sequential(*layers).to(memory_format=torch.channels_last).eval()


def images_of(channels: int, n: int = 9) -> torch.Tensor:
    images = torch.randn(n, channels, 14, 14, generator=torch.Generator().manual_seed(0))
    return images.contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("channels", [1, 3, 17])
@torch.inference_mode()
def test_answers_of_any_number_of_images_stay_what_they_were(channels):
    module, images = convolutions(channels), images_of(channels)
    before = [module(images[:k]) for k in (1, 2, 5, 9)]
    with torch.inference_mode(False):
        pack(module, images_of(channels))
    for k, answer in zip((1, 2, 5, 9), before, strict=True):
        torch.testing.assert_close(module(images[:k]), answer, atol=1e-6, rtol=1e-6)


@torch.inference_mode()
def test_packed_weights_are_really_used():
    module, images = convolutions(3), images_of(3)
    with torch.inference_mode(False):
        pack(module, images_of(3))
        module[0].weight.data.zero_()
    assert module[0](images).std() > 0.1
    assert module[0](images[:1]).std() == 0 or module[0].bias.std() > 0, "a single image goes the usual way"


def test_layers_stay_the_layers_they_were():
    module = convolutions(3)
    heard, before = [], [type(layer) for layer in module.modules()]
    pack(module, images_of(3))
    for layer in module:
        layer.register_forward_hook(lambda layer, *_: heard.append(layer))
    with torch.inference_mode():
        module(images_of(3))
    assert heard == list(module)
    assert [type(layer) for layer in module.modules()] == before
    assert not any(layer._forward_hooks for layer in nn.Sequential(nn.Conv2d(3, 3, 1)))


def test_what_cannot_be_packed_is_left_alone():
    module = nn.Sequential(nn.Conv2d(3, 4, 3, padding="same"), nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect"))
    images = images_of(3)
    before = module(images)
    pack(module, images)
    assert torch.equal(module(images), before)
    double = convolutions(3).double()
    pack(double, images.double())
    assert torch.isfinite(double(images.double())).all()

"""What ReLU lets through, added up unit by unit."""

from __future__ import annotations

import torch

from snv.networks import PlainConvNet, build_network
from snv.neurons.activity import activity
from snv.neurons.find import find_neurons
from snv.neurons.wiring import units_of


def measured(body, shape):
    images = torch.randn(9, *shape, generator=torch.Generator().manual_seed(0))
    neurons = find_neurons(body, images[:2], include=["*"])
    return activity(body, neurons, units_of(neurons), images.split(4)), images


def test_it_is_the_sum_over_images_and_positions_before_pooling():
    body = PlainConvNet(torch.Generator().manual_seed(0), (1, 8, 8), width=2)
    amounts, x = measured(body, (1, 8, 8))
    expected = []
    with torch.no_grad():
        for i, layer in enumerate(body.maps):
            x = layer(x).clamp(min=0)
            expected.append(x.double().sum((0, 2, 3)))
            x = torch.nn.functional.max_pool2d(x, 2) if i % 2 else x
        expected.append(body.hidden(x.flatten(1)).clamp(min=0).double().sum(0))
    torch.testing.assert_close(amounts, torch.cat(expected), rtol=1e-5, atol=1e-5)


def test_a_stream_counts_behind_each_of_its_blocks():
    body = build_network("resnet18", (1, 16, 16), 0, width=2).body.eval()
    amounts, images = measured(body, (1, 16, 16))
    with torch.no_grad():
        x = body.bn1(body.conv1(images)).clamp(min=0)
        expected = x.double().sum((0, 2, 3))
        for block in body.layer1:
            x = block(x)
            expected += x.double().sum((0, 2, 3))
    torch.testing.assert_close(amounts[:2], expected, rtol=1e-5, atol=1e-5)

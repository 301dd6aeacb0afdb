"""ResNet-18 has the sizes of the paper."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from snv.networks import build_network


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
    body = build_network("resnet18", (3, 32, 32), 0).body.to("meta")
    with FlopCounterMode(display=False) as counter:
        body(torch.empty(2, 3, 32, 32, device="meta"))
    assert counter.get_total_flops() // 4 == stem + stages == 555_417_600  # of two images, two operations each


@pytest.mark.parametrize(("stem", "size"), [("3x3", 4), ("3x3/2", 2), ("3x3/4", 1), ("7x7/2", 1)])
def test_stems_shrink_the_image_by_their_stride(stem, size):
    body = build_network("resnet18", (3, 32, 32), 0, width=4, stem=stem).body
    sizes = []
    body.layer4.register_forward_hook(lambda _m, _i, out: sizes.append(out.shape[-1]))
    body(torch.rand(2, 3, 32, 32))
    assert sizes == [size]

"""The same gradients on every processor."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from snv.networks import build_network
from snv.networks.strided import is_at_risk, mend

SCRIPT = Path(__file__).with_name("gradients.py")


@pytest.mark.parametrize("processor", ["SSE41", "AVX2", "its own best"])
def test_gradients_of_networks_with_few_channels_are_right_on_every_kind_of_processor(processor):
    environment = {key: value for key, value in os.environ.items() if key != "ONEDNN_MAX_CPU_ISA"}
    environment["GOMP_SPINCOUNT"] = "1000"  # two threads that wait for each other must not starve on a busy machine
    if processor != "its own best":
        environment["ONEDNN_MAX_CPU_ISA"] = processor
    done = subprocess.run([sys.executable, SCRIPT], env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-500:]  # a corrupted heap ends the process
    errors = json.loads(done.stdout)
    assert len(errors) == (17 + 5 + 3) * 2 * 2 * 2
    wrong = {
        name: error for name, error in errors.items() if not error < 5e-3
    }  # rounding gives less than 1e-3, the fault 0.03 and more
    assert not wrong


def layer(channels: int = 5, bias: bool = True) -> nn.Conv2d:
    torch.manual_seed(0)
    made = nn.Conv2d(channels, 7, 1, stride=2, bias=bias)
    mend(made)
    return made


@pytest.mark.parametrize("channels", [1, 5, 8, 15])
@pytest.mark.parametrize("training", [True, False])
def test_answers_are_bit_for_bit_those_of_the_plain_layer(channels, training):
    ours = layer(channels)
    theirs = nn.Conv2d(channels, 7, 1, stride=2)
    theirs.load_state_dict(ours.state_dict())
    images = torch.randn(4, channels, 9, 8).contiguous(memory_format=torch.channels_last)
    with torch.set_grad_enabled(training):
        assert torch.equal(ours(images), theirs(images))


def test_multiply_accumulates_are_counted_as_ever():
    counts = []
    for made in (layer(5), nn.Conv2d(5, 7, 1, stride=2)):
        images = torch.randn(4, 5, 8, 8, requires_grad=True)
        with FlopCounterMode(display=False) as counter:
            made(images).sum().backward()
        counts.append(counter.get_total_flops())
    assert counts[0] == counts[1] > 0


def test_a_copy_is_mended_too_and_saved_weights_have_the_same_names():
    twin = copy.deepcopy(layer())
    assert twin._conv_forward is not nn.Conv2d._conv_forward
    assert list(twin.state_dict()) == ["weight", "bias"]


def test_under_autocast_the_gradient_is_that_of_the_pixels_looked_at():
    made, images = layer(), torch.randn(4, 5, 8, 8)
    with torch.autocast("cpu", torch.bfloat16):
        out = made(images)
    assert out.dtype == torch.bfloat16
    out.float().sum().backward()
    expected = images[:, :, ::2, ::2].sum((0, 2, 3)).expand(7, 5)
    torch.testing.assert_close(made.weight.grad[:, :, 0, 0], expected, rtol=0.05, atol=0.5)


def test_only_single_pixels_with_a_stride_and_few_channels_are_at_risk():
    assert is_at_risk(nn.Conv2d(15, 4, 1, 2))
    for safe in (nn.Conv2d(16, 4, 1, 2), nn.Conv2d(4, 4, 3, 2), nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1, 2, groups=2)):
        assert not is_at_risk(safe)


def test_every_shortcut_of_a_narrow_network_is_mended():
    body = build_network("resnet18", (3, 16, 16), seed=0, width=4).body
    mended = [m for m in body.modules() if isinstance(m, nn.Conv2d) and "_conv_forward" in vars(m)]
    assert len(mended) == 2  # 4 → 8 and 8 → 16; the third reads 16 channels

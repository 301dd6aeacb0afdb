"""Thousands of filters, or many networks at once, give what each one gives by its definition."""

from __future__ import annotations

import copy

import pytest
import torch

from snv.networks import imitator
from snv.networks.imitator import Imitator, answers, own_answers, patches


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("block", [1, 100, 1000, 2**20])
def test_the_fast_way_equals_the_plain_one_in_pieces_of_any_size(block, monkeypatch):
    monkeypatch.setitem(imitator.BLOCK, "cpu", block)
    net, images = Imitator(3, 11, 4, 5, rng()), torch.randn(6, 3, 8, 8, generator=rng(1))
    torch.testing.assert_close(answers(net, patches(images, 4)), net(images).detach(), atol=1e-5, rtol=1e-5)


def test_many_networks_at_once_have_the_answers_and_gradients_of_each_alone():
    nets = [Imitator(3, 6, 4, 5, rng(k)) for k in range(3)]
    alone = copy.deepcopy(nets)
    images = torch.randn(7, 3, 8, 8, generator=rng(1))
    together = own_answers(nets, [2, 4, 1], patches(images, 4))
    separate = torch.cat([net(part) for net, part in zip(alone, images.split([2, 4, 1]), strict=True)])
    torch.testing.assert_close(together, separate, atol=1e-5, rtol=1e-5)
    for answer in (together, separate):
        answer.square().sum().backward()
    for net, other in zip(nets, alone, strict=True):
        for (name, p), q in zip(net.named_parameters(), other.parameters(), strict=True):
            if name == "convolution.bias":  # instance norm takes it away again
                assert p.grad is None and q.grad.abs().max() < 1e-4
            else:
                torch.testing.assert_close(p.grad, q.grad, atol=1e-4, rtol=1e-4)

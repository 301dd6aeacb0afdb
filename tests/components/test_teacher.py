"""A teacher survives as a state."""

from __future__ import annotations

import torch

from snv.components.teacher import restored_teacher, teacher_state
from snv.networks import build_network, frozen_copy


def test_a_teacher_comes_back_with_as_many_heads_as_it_had():
    network = build_network("mlp", (1, 8, 8), 0, hidden=[5])
    network.add_head(2)
    teacher, images = frozen_copy(network), torch.randn(3, 1, 8, 8)
    network.add_head(3)
    with torch.no_grad():
        next(network.parameters()).add_(1)
    again = restored_teacher(teacher_state(teacher), network)
    assert torch.equal(again(images), teacher(images))
    assert again(images).shape == (3, 2)
    assert restored_teacher(teacher_state(None), network) is None

"""The state of norm layers, which every task has for itself; and networks without statistics that tasks would share."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from snv.networks.layers import NORMS


def norm_state(body: nn.Module) -> dict[str, Tensor]:
    """A copy of every norm layer: affine parameters and statistics, 4 numbers per neuron."""
    return {
        f"{name}.{key}": value.detach().clone()
        for name, module in body.named_modules()
        if isinstance(module, NORMS)
        for key, value in module.state_dict().items()
    }


@torch.no_grad()
def load_norm(body: nn.Module, state: dict[str, Tensor]) -> None:
    """Put a task's own norm state in place."""
    for name, value in state.items():
        module, _, key = name.rpartition(".")
        getattr(body.get_submodule(module), key).copy_(value)


def use_instance_norm(body: nn.Module) -> None:
    """InstanceNorm in place of every BatchNorm of maps: a channel depends on no other channel and on no batch."""
    for module in body.modules():
        for name, child in list(module.named_children()):
            if isinstance(child, nn.BatchNorm2d):
                setattr(module, name, nn.InstanceNorm2d(child.num_features, child.eps, affine=True))

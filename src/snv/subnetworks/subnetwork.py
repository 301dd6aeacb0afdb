"""A task's neurons as a network of their own: the dense network in which all others are silent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from snv.errors import UserError
from snv.files import State
from snv.networks import load_norm, norm_state
from snv.neurons import Neurons, ablated
from snv.shapes import Mask


@dataclass(frozen=True, eq=False)
class Subnetwork:
    """What a task needs besides frozen weights and its head: which neurons, and norm state; made by `subnetwork_of`."""

    mask: Mask
    norm: dict[str, Tensor]

    def state(self) -> State:
        return {"mask": self.mask, "norm": self.norm}

    @staticmethod
    def from_state(state: State, device: torch.device | None = None) -> Subnetwork:
        if "means" in state and bool(state["means"].any()):  # once stored, and zeros if all others are silent
            raise UserError(
                "A task was learned with the neurons outside its subnetwork held at their mean responses, and snv only "
                "knows silent ones by now. Learn it anew, or use it with the version of snv that learned it."
            )
        return Subnetwork(state["mask"], {name: x.to(device) for name, x in state["norm"].items()})


def subnetwork_of(body: nn.Module, neurons: Neurons, mask: Mask) -> Subnetwork:
    """These neurons with the norm state of ``body`` as it is now, which turns all others into 0."""
    norm = norm_state(body)
    for layer in neurons.norms:
        for part in ("weight", "bias"):
            if (name := f"{layer.name}.{part}") in norm:
                norm[name][layer.silent(mask)] = 0
    return Subnetwork(mask, norm)


@contextmanager
def norm_of(body: nn.Module, subnetwork: Subnetwork) -> Iterator[None]:
    """The body has the task's norm layers inside the block."""
    own = norm_state(body)
    load_norm(body, subnetwork.norm)
    try:
        yield
    finally:
        load_norm(body, own)


@contextmanager
def masked(body: nn.Module, neurons: Neurons, subnetwork: Subnetwork) -> Iterator[None]:
    """The body is the task's subnetwork inside the block: its norm state, and zeros for every other neuron."""
    silence = torch.zeros(neurons.n_responses, device=next(body.parameters()).device)
    with norm_of(body, subnetwork), ablated(neurons, subnetwork.mask, silence):
        yield

"""A task's neurons as a network of their own: masked (bit-exact), and the proof that it never changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from snv.errors import UserError
from snv.files import State
from snv.networks import load_norm, norm_state
from snv.neurons import Neurons, Owned, ablated, own_weights
from snv.shapes import Entries, Mask
from snv.subnetworks.cutting import compact


@dataclass(frozen=True, eq=False)
class Subnetwork:
    """What a task needs besides frozen weights and its head: which neurons, constants for the rest, norm state."""

    mask: Mask
    means: Tensor
    norm: dict[str, Tensor]

    @property
    def silent(self) -> bool:
        """Whether neurons outside it are held at zero rather than at their mean responses."""
        return not bool(self.means.any())

    def state(self) -> State:
        return {"mask": self.mask, "means": self.means, "norm": self.norm}

    @staticmethod
    def from_state(state: State, device: torch.device | None = None) -> Subnetwork:
        if state["means"].any():
            raise UserError(
                "A task was learned with the neurons outside its subnetwork held at their mean responses, and snv only "
                "knows silent ones by now. Learn it anew, or use it with the version of snv that learned it."
            )
        norm = {name: x.to(device) for name, x in state["norm"].items()}
        return Subnetwork(state["mask"], state["means"].to(device), norm)


def subnetwork_of(body: nn.Module, neurons: Neurons, mask: Mask) -> Subnetwork:
    """These neurons with the norm state of ``body`` as it is now, which turns all others into 0."""
    norm = norm_state(body)
    for owned in neurons.owned:
        if owned.role == "norm":
            norm[owned.name][~mask[owned.owner]] = 0
    weights = next(body.parameters())
    return Subnetwork(mask, torch.zeros(neurons.n_responses, device=weights.device), norm)


@contextmanager
def norm_of(body: nn.Module, subnetwork: Subnetwork) -> Iterator[None]:
    """The body has the task's norm layers inside the block."""
    before = norm_state(body)
    load_norm(body, subnetwork.norm)
    try:
        yield
    finally:
        load_norm(body, before)


@contextmanager
def masked(body: nn.Module, neurons: Neurons, subnetwork: Subnetwork) -> Iterator[None]:
    """The body is the task's subnetwork inside the block: its norm state, constants for every other neuron."""
    with norm_of(body, subnetwork), ablated(neurons, subnetwork.mask, subnetwork.means):
        yield


@dataclass(frozen=True, eq=False)
class Read:
    """The part of a weight tensor that a task depends on: rows of its neurons and, in them, some columns."""

    owned: Owned
    rows: Entries
    columns: Entries | None  # None: all of them, or a bias

    @property
    def weights(self) -> Tensor:
        rows = self.owned.tensor.detach()[self.rows]
        return rows if self.columns is None else rows[:, self.columns]

    @property
    def entries(self) -> Entries:
        """True for what is read, (rows,) of a bias and (rows, columns) of other tensors."""
        columns = torch.ones(self.owned.tensor.shape[1:2], dtype=torch.bool) if self.columns is None else self.columns
        return self.rows if self.owned.tensor.ndim == 1 else self.rows[:, None] & columns


def reads(
    body: nn.Module, head: nn.Linear, neurons: Neurons, subnetwork: Subnetwork, shape: tuple[int, int, int]
) -> list[Read]:
    """Every weight the subnetwork depends on, one part per tensor of `own_weights`.

    A neuron outside it that is held at its mean passes a constant through the columns that read it, so rows are needed
    whole. One that is silent passes nothing: a later task may train those columns.
    """
    silent: dict[nn.Module, Entries] = {}
    if subnetwork.silent:
        with torch.no_grad(), norm_of(body, subnetwork):
            _, links = compact(body, head, neurons, subnetwork.mask, subnetwork.means, shape)
        for link in links:
            if link.silent is not None:
                before = silent.get(link.dense, torch.tensor(True))  # a layer may be called twice
                silent[link.dense] = before & link.silent.cpu()
    return [
        Read(owned, subnetwork.mask[owned.owner], ~free if owned.attribute == "weight" and free is not None else None)
        for owned in own_weights(neurons)
        for free in [silent.get(owned.module)]
    ]

"""The subnetwork of the task that is being learned, as a small module to be trained."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from snv.components import Frozen
from snv.files import State
from snv.networks import NORM_PARTS
from snv.neurons import own_weights
from snv.shapes import Entries, Mask
from snv.subnetworks.cutting import Link, compact
from snv.subnetworks.specialists import Specialists
from snv.subnetworks.subnetwork import Subnetwork, subnetwork_of


class Trainee:
    """Cut out of the dense network with the newest head; what earlier tasks read of it stays as it is."""

    @classmethod
    def of(cls, specialists: Specialists, mask: Mask) -> Trainee:
        """These neurons, with the norm layers of the dense network as they are now."""
        return cls(specialists, subnetwork_of(specialists.body, specialists.neurons, mask))

    def __init__(self, specialists: Specialists, subnetwork: Subnetwork) -> None:
        self.subnetwork, self._body, self._neurons = subnetwork, specialists.body, specialists.neurons
        head, shape = specialists.network.head(-1), specialists.shape
        self.small, self._links = compact(self._body, head, self._neurons, subnetwork, shape)
        self.frozen = hold(_frozen_parts(self._links, specialists))

    def written_back(self) -> Subnetwork:
        """What was learned goes into the dense network; the subnetwork takes its norm state along."""
        write_back(self._links)
        return subnetwork_of(self._body, self._neurons, self.subnetwork.mask)

    def state(self) -> dict[str, State]:
        return {"chosen": self.subnetwork.state(), "small": dict(self.small.state_dict())}

    def load(self, subnetwork: Subnetwork, small: dict[str, Tensor]) -> None:
        """The same module with other weights, since an optimiser may have it; runs of before stored zeros besides."""
        self.subnetwork = subnetwork
        self.small.load_state_dict({name: small[name] for name in self.small.state_dict()})


def trainee_state(trainee: Trainee | None) -> dict[str, State]:
    """As runs keep it, also that there is none."""
    return {"chosen": None, "small": None} if trainee is None else trainee.state()


def restored_trainee(state: State, specialists: Specialists, trainee: Trainee | None) -> Trainee | None:
    """The inverse of `trainee_state`; a ``trainee`` that is there stays the same module."""
    if state["chosen"] is None:
        return None
    chosen = Subnetwork.from_state(state["chosen"], specialists.device)
    trainee = trainee or Trainee(specialists, chosen)
    trainee.load(chosen, state["small"])
    return trainee


@torch.no_grad()
def write_back(links: list[Link]) -> None:
    """Put what the small network has learned into the rows and columns of the dense one it was cut from."""
    for link in links:
        parts = NORM_PARTS if link.columns is None else ("weight", "bias")
        for name in parts:
            learned, dense = getattr(link.small, name, None), getattr(link.dense, name, None)
            if learned is None or dense is None:
                continue
            if link.columns is None or name == "bias":
                dense[link.rows] = learned
            else:
                dense[link.rows[:, None], link.columns] = learned


def hold(blocks: Iterable[tuple[Tensor, Entries]]) -> Frozen:
    """What is frozen of some tensors; those frozen altogether are not trained, so no optimiser has them."""
    blocks = list(blocks)
    for tensor, frozen in blocks:
        tensor.requires_grad_(not bool(frozen.all()))
    return Frozen((tensor, frozen) for tensor, frozen in blocks if tensor.requires_grad)


def hold_dense(specialists: Specialists) -> Frozen:
    """What tasks read of the dense network; a layer in which nothing else is left is not trained at all."""
    weights = (own.tensor for own in own_weights(specialists.neurons))
    return hold(zip(weights, specialists.read_by(), strict=True))


def _frozen_parts(links: list[Link], specialists: Specialists) -> Iterable[tuple[Tensor, Entries]]:
    """Of each tensor of the small network, what earlier tasks read."""
    weights = zip(own_weights(specialists.neurons), specialists.read_by(), strict=True)
    read = {id(owned.tensor): entries for owned, entries in weights}
    for link in links:
        for tensor, dense in zip(link.trained, (link.dense.weight, link.dense.bias), strict=False):
            if (entries := read.get(id(dense))) is not None:
                rows = entries[link.rows]
                yield tensor, rows if rows.ndim == 1 else rows[:, link.columns]

"""Every weight that a task depends on: those between two of its neurons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from snv.neurons import Neurons, Owned, own_weights
from snv.shapes import Entries
from snv.subnetworks.cutting import compact
from snv.subnetworks.subnetwork import Subnetwork


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

    A silent neuron passes nothing through the columns that read it: a later task may train those.
    """
    with torch.no_grad():
        _, links = compact(body, head, neurons, subnetwork, shape)
    columns: dict[nn.Module, Entries] = {}
    for link in links:
        if link.columns is not None:  # a layer may be called twice, and read other columns then
            dense: Any = link.dense
            read = columns.setdefault(dense, torch.zeros(dense.weight.shape[1], dtype=torch.bool))
            read[link.columns] = True
    return [
        Read(owned, subnetwork.mask[owned.owner], columns.get(owned.module) if owned.attribute == "weight" else None)
        for owned in own_weights(neurons)
    ]

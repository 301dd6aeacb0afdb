"""What each neuron was worth to each task, and which neurons each task has: a table that outlives the network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32
from numpy.typing import DTypeLike, NDArray
from torch import Tensor

from snv.data import BROKEN, read_npz
from snv.errors import UserError
from snv.files import write_atomic
from snv.neurons.find import Neurons
from snv.shapes import Mask, Values


@dataclass(frozen=True, eq=False)
class NeuronTable:
    """One row per task learned, one column per neuron, layer after layer."""

    layers: tuple[str, ...]
    sizes: tuple[int, ...]  # neurons of each layer
    values: Float32[np.ndarray, "t n"]  # φ; nan: not valued
    masks: Bool[np.ndarray, "t n"]  # True: in the task's subnetwork, reused neurons included

    @classmethod
    def of(cls, neurons: Neurons, values: Sequence[Values], masks: Sequence[Mask]) -> NeuronTable:
        """Of the tasks that have both values and a mask, in the order in which they were learned."""
        t = min(len(values), len(masks))
        layers, sizes = zip(*((layer.name, layer.n) for layer in neurons.layers), strict=True)
        return cls(layers, sizes, _rows(values[:t], neurons.n, np.float32), _rows(masks[:t], neurons.n, np.bool_))

    def save(self, path: Path) -> None:
        """As one .npz file, written whole or not at all."""

        def write(temporary: Path) -> None:
            with temporary.open("wb") as file:
                np.savez_compressed(
                    file,
                    allow_pickle=False,
                    layers=np.array(self.layers, dtype=np.str_),
                    sizes=np.array(self.sizes, dtype=np.int64),
                    values=self.values,
                    masks=self.masks,
                )

        write_atomic(path, write)

    @classmethod
    def load(cls, path: Path) -> NeuronTable:
        """What `save` wrote; a damaged file is named, never half-read."""
        try:
            stored = read_npz(path, ("layers", "sizes", "values", "masks"))
            names, counts, values, masks = stored.values()
            kinds = "".join(array.dtype.kind for array in stored.values())
            if kinds != "Uifb" or names.shape != counts.shape or names.ndim != 1 or (counts < 0).any():
                raise ValueError("it names no layers with so many neurons each")
        except BROKEN as error:
            raise UserError(
                f"{path} is damaged or holds no table of neurons ({error}). Restore or remove it."
            ) from None
        layers, sizes = names.tolist(), counts.tolist()
        if values.shape != masks.shape or values.ndim != 2 or values.shape[1] != sum(sizes):
            raise UserError(
                f"{path} holds no table of neurons: its layers have {sum(sizes)} neurons, its values the shape "
                f"{values.shape} and its masks {masks.shape}. Restore or remove it."
            )
        return cls(tuple(layers), tuple(sizes), values.astype(np.float32, copy=False), masks)


def _rows(parts: Sequence[Tensor], n: int, kind: DTypeLike) -> NDArray[Any]:
    return np.array([part.detach().cpu().numpy() for part in parts], dtype=kind).reshape(-1, n)

"""Tables of neurons, small enough to travel inside a page: values in 16 bits, masks in one."""

from __future__ import annotations

import base64
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32

from snv.report.analyses.capacity import jaccard
from snv.runs import NeuronTable


@dataclass(frozen=True)
class PackedNeurons:
    """A table of neurons as text; ``values`` times ``scale`` are φ, to three digits."""

    layers: tuple[str, ...]
    sizes: tuple[int, ...]
    n_tasks: int
    scale: float  # largest |φ|
    values: str  # base64 of little-endian float16, (t, n); nan: not valued
    masks: str  # base64 of bits, the first neuron highest, (t, n) in one stretch
    overlap: tuple[tuple[float, ...], ...]  # Jaccard index of every pair of masks

    @property
    def n_bytes(self) -> int:
        """In the page, roughly."""
        return len(self.values) + len(self.masks)


def packed(table: NeuronTable) -> PackedNeurons:
    """The table with values divided by the largest, so that 16 bits hold them whatever their unit is."""
    scale = _largest(table.values)
    values = (table.values / scale).astype("<f2")
    overlap = tuple(tuple(round(float(x), 4) for x in row) for row in jaccard(table.masks))
    return PackedNeurons(
        table.layers,
        table.sizes,
        len(table.masks),
        scale,
        base64.b64encode(values.tobytes()).decode("ascii"),
        base64.b64encode(np.packbits(table.masks).tobytes()).decode("ascii"),
        overlap,
    )


def _largest(values: Float32[np.ndarray, "t n"]) -> float:
    sizes = np.abs(values[np.isfinite(values)])
    return float(sizes.max()) if sizes.size and sizes.max() > 0 else 1.0

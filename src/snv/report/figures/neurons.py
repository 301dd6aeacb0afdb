"""What figures of neurons have in common: the run that has a table of them, and its layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snv.report.figures.style import none_of
from snv.runs import NeuronTable, Result


def with_neurons(results: Sequence[Result], name: str) -> tuple[Result, NeuronTable]:
    """The first run with masks and values."""
    for result in results:
        table = result.neurons()
        if table is not None and len(table.masks):
            return result, table
    raise none_of("masks of neurons (neurons.npz); runs of snv and snv-paper keep them", f"snv figure {name} runs/snv")


def split_by_layer(table: NeuronTable, row: NDArray[Any]) -> list[NDArray[Any]]:
    """Each layer's part of the last axis."""
    return np.split(row, np.cumsum(table.sizes)[:-1], axis=-1)


def short_name(name: str) -> str:
    return name.removeprefix("body.")

"""Tables of neurons survive the way into a page."""

from __future__ import annotations

import base64

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from snv.report.packed import packed
from snv.runs import NeuronTable

MASKS = arrays.arrays(np.bool_, st.tuples(st.integers(1, 5), st.integers(1, 20)))


def a_table(values: np.ndarray, masks: np.ndarray) -> NeuronTable:
    return NeuronTable(("conv1",), (values.shape[1],), values.astype(np.float32), masks)


def unpacked_values(small) -> np.ndarray:
    return np.frombuffer(base64.b64decode(small.values), "<f2").astype(float).reshape(small.n_tasks, -1) * small.scale


@pytest.mark.parametrize("unit", [1e-9, 1.0, 3e7])
def test_values_keep_three_digits_whatever_their_unit(unit):
    values = np.array([[0.5, -2.0, 0.01], [0.0, np.nan, 1.0]]) * unit
    small = packed(a_table(values, np.ones((2, 3), dtype=bool)))
    np.testing.assert_allclose(unpacked_values(small), values.astype(np.float32), rtol=1e-3)


@given(MASKS)
def test_masks_come_back_bit_for_bit(masks):
    small = packed(a_table(np.zeros(masks.shape), masks))
    bits = np.unpackbits(np.frombuffer(base64.b64decode(small.masks), np.uint8), count=masks.size)
    assert (bits.reshape(masks.shape).astype(bool) == masks).all()


def test_overlap_is_both_of_either():
    masks = np.array([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 0, 1]], dtype=bool)
    assert packed(a_table(np.zeros((3, 4)), masks)).overlap == ((1, 0.3333, 0), (0.3333, 1, 0), (0, 0, 1))


def test_4800_neurons_of_50_tasks_take_less_than_a_megabyte():
    small = packed(a_table(np.random.default_rng(0).normal(size=(50, 4800)), np.ones((50, 4800), dtype=bool)))
    assert small.n_bytes < 1_000_000

"""Shapes are part of the type, and checked while tests run."""

from __future__ import annotations

import pytest
import torch
from jaxtyping import TypeCheckError

from snv.metrics import temperature


def test_a_tensor_of_another_shape_is_refused():
    with pytest.raises(TypeCheckError, match="labels"):
        temperature(torch.zeros(4, 2), torch.zeros(4, 1, dtype=torch.int64))


def test_axes_of_one_name_have_one_length():
    with pytest.raises(TypeCheckError, match="labels"):
        temperature(torch.zeros(4, 2), torch.zeros(5, dtype=torch.int64))

"""What tests of learners share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from snv.data import augment


@pytest.fixture
def float64(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Learners of such a test compute in float64 throughout: two conventions agree to rounding, or they differ."""
    standardised = augment.standardised
    monkeypatch.setattr(augment, "standardised", lambda *given: standardised(*given).double())
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)  # what guards sums against bf16
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)

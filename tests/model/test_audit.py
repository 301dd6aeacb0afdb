"""Every tensor of a model is named, and none is a picture."""

from __future__ import annotations

import numpy as np
import torch

from snv.model.store import Store
from taught import tensors


def test_the_audit_names_every_tensor_of_every_file_and_none_is_a_picture(model):
    rows = model.audit()
    stored = Store(model.path).read().states
    in_files = {name: sum(x.numel() * x.element_size() for x in tensors(state)) for name, state in stored.items()}
    listed: dict[str, int] = {}
    for part, name, shape, size, role in rows:
        assert role
        assert name
        assert size % max(1, int(np.prod(shape))) == 0
        listed[part] = listed.get(part, 0) + size
    assert listed == in_files
    assert len(rows) == len({row[:2] for row in rows}) == sum(len(tensors(state)) for state in stored.values())
    assert all(x.dtype != torch.uint8 for state in stored.values() for x in tensors(state))

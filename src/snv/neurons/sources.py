"""PyTorch keeps the source text of every network it traces, for tracebacks, as long as the process lives."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch.fx.graph_module
from torch import fx, nn

KEPT: dict[str, Any] = getattr(getattr(torch.fx.graph_module, "_loader", None), "eval_cache", {})
"""By the name of a file that does not exist; empty in a PyTorch that keeps none."""


@contextmanager
def sources_let_go() -> Iterator[None]:
    """Texts that the block adds are gone after it: in a long stream subnetworks are cut out many thousand times."""
    before = set(KEPT)
    try:
        yield
    finally:
        for name in KEPT.keys() - before:
            del KEPT[name]
            linecache.cache.pop(name, None)


def as_module(parts: nn.Module, graph: fx.Graph) -> fx.GraphModule:
    """A network of these parts that does what the graph says."""
    with sources_let_go():
        return fx.GraphModule(parts, graph)

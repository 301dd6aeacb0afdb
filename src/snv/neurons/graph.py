"""A module as a graph of its operations."""

from __future__ import annotations

import jaxtyping
from torch import fx, nn


def graph_of(root: nn.Module) -> fx.Graph:
    """The operations of one forward pass; an exception of any kind if Python code in it depends on the data."""
    checked = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)  # a traced value is not a tensor and has no shape
    try:
        return fx.Tracer().trace(root)
    finally:
        jaxtyping.config.update("jaxtyping_disable", checked)

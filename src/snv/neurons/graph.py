"""A module as a graph of its operations."""

from __future__ import annotations

from typing import Any

import jaxtyping
from torch import fx, nn

from snv.neurons.find import evaluating


def graph_of(root: nn.Module) -> fx.Graph:
    """The operations of one forward pass; an exception of any kind if Python code in it depends on the data."""
    checked = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)  # a traced value is not a tensor and has no shape
    try:
        return fx.Tracer().trace(root)
    finally:
        jaxtyping.config.update("jaxtyping_disable", checked)


def operation_name(node: fx.Node) -> str:
    """Of a function or a method; of a module where it is kept."""
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")


def call_settings(node: fx.Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call besides the signal it reads, by position and by name."""
    by_position = tuple(x for x in node.args if not isinstance(x, fx.Node))
    return by_position, {name: x for name, x in node.kwargs.items() if not isinstance(x, fx.Node)}


def over_positions(node: fx.Node) -> bool:
    """Whether a mean is taken over height and width."""
    dims = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else None)
    return dims in ((2, 3), [2, 3], (-2, -1), [-2, -1]) and not node.kwargs.get("keepdim", False)


def told_to_train(root: nn.Module, node: fx.Node) -> list[Any]:
    """What a function such as dropout is told about training while ``root`` evaluates, and while it trains."""
    told = []
    with evaluating(root):  # which gives every module its own mode back
        for mode in (False, True):
            same = [other for other in graph_of(root.train(mode)).nodes if other.name == node.name]
            told.append(_training(same[0]) if same else None)
    return told


def _training(node: fx.Node) -> Any:
    """``training`` of `torch.nn.functional`, or the third argument of `torch`'s own functions."""
    args, kwargs = call_settings(node)
    return kwargs.get("training", kwargs.get("train", args[1] if len(args) > 1 else None))

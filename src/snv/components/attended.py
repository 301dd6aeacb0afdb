"""A body with a gate behind every ReLU, and which gates stand before and behind each of its weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.func import functional_call

from snv.errors import UserError
from snv.networks import MAPS
from snv.neurons import graph_of, operation_name
from snv.shapes import Features, Images, Values


@dataclass(eq=False)
class Wire:
    """A convolution or linear layer between two layers of gates."""

    module: Any
    reads: int | None  # the gates its input has passed; None: it reads images
    feeds: int = -1  # the gates its output meets

    def share_in_use(self, used: Sequence[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
        """Weight and bias, each with how far earlier tasks use it: min(M[out], M[in]), and M[out]."""
        weight, out = self.module.weight, used[self.feeds]
        share = out[:, None].expand(weight.shape[:2])
        if self.reads is not None:
            inside = used[self.reads]
            share = torch.minimum(share, inside.repeat_interleave(weight.shape[1] // len(inside)))
        yield weight, share
        if self.module.bias is not None:
            yield self.module.bias, out


@dataclass(eq=False)
class _Signal:
    """What is known of a tensor on its way through the body."""

    gates: int | None = None  # those it has passed since the last layer with weights
    writers: list[Wire] = field(default_factory=list)  # layers whose outputs it is made of, not gated yet


class Attended:
    """The body itself, with the same weights, whose ReLUs are multiplied by gates that every call is given."""

    def __init__(self, body: nn.Module) -> None:
        graph = graph_of(body)
        self.wires: list[Wire] = []
        self.sizes: list[int] = []
        self._gate(body, graph)
        self.module = fx.GraphModule(body, graph)

    def __call__(self, images: Images, gates: Sequence[Tensor], state: dict[str, Tensor] | None = None) -> Features:
        """Features through one layer of gates for each of `sizes`; ``state`` stands in for some of the body's own."""
        features: Features = functional_call(self.module, state or {}, (images, *gates))
        return features

    def _gate(self, body: nn.Module, graph: fx.Graph) -> None:
        """Follow the signal from layer to layer, and put a gate behind every ReLU."""
        signals: dict[fx.Node, _Signal] = {}
        last_input = next(node for node in graph.nodes if node.op == "placeholder")
        for node in list(graph.nodes):
            before = [signals[x] for x in node.all_input_nodes if x in signals]
            writers = list(dict.fromkeys(wire for signal in before for wire in signal.writers))
            module = body.get_submodule(node.target) if node.op == "call_module" else None
            if isinstance(module, MAPS):
                _require_gated(writers, node)
                self.wires.append(Wire(module, before[0].gates))
                signals[node] = _Signal(writers=[self.wires[-1]])
            elif isinstance(module, nn.ReLU) or (module is None and operation_name(node) in ("relu", "relu_")):
                for wire in writers:
                    wire.feeds = len(self.sizes)
                with graph.inserting_after(last_input):
                    last_input = graph.placeholder(f"gates_{len(self.sizes)}")
                with graph.inserting_after(node):
                    gated = graph.call_function(gate, (node, last_input))
                node.replace_all_uses_with(gated, delete_user_cb=lambda user, gated=gated: user is not gated)
                signals[gated] = _Signal(gates=len(self.sizes))
                self.sizes.append(len(writers[0].module.weight))
            elif node.op == "output":
                _require_gated(writers, node)
            else:
                signals[node] = _Signal(before[0].gates if len(before) == 1 else None, writers)


def gate(signal: Tensor, gates: Values) -> Tensor:
    """Every channel times its gate."""
    return signal * gates.view(-1, *[1] * (signal.ndim - 2)).to(signal.dtype)


def _require_gated(writers: list[Wire], node: fx.Node) -> None:
    if writers:
        raise UserError(
            f"Gates stand behind ReLUs, but {node.name} reads a layer without one; a task could not be kept from "
            "changing what it computes. Use resnet18, convnet or mlp."
        )

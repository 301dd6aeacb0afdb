"""A compact network with as few operations as can be, for inference: the same answers, and no gradients.

Two things cost a small network more time than its multiplications. Norm layers with fixed statistics are taken in by
the layer before them. And a sum of signals with different channels becomes a plain addition, once both come with all of
its channels, zero where they have nothing to add.
"""

from __future__ import annotations

import copy
from typing import Any, TypeAlias

import torch
from torch import Tensor, fx, nn

from snv.networks import MAPS, NORMS, JointNorm
from snv.neurons import sources_let_go
from snv.subnetworks.cutting import ZERO, Compact, Merge, pointwise

Node: TypeAlias = Any  # of torch.fx, whose arguments may be anything

FIXED = (nn.BatchNorm1d, nn.BatchNorm2d, nn.SyncBatchNorm)
"""Norm layers that may use the same statistics for every image."""


@sources_let_go()
@torch.no_grad()
def folded(module: Compact) -> Compact:
    """A copy of ``module`` that gives the same logits, to float precision, with fewer operations."""
    small = copy.deepcopy(module).eval()
    assert isinstance(small.body, fx.GraphModule)
    _Folding(small).fold()
    small.body.recompile()
    return small


class Plain(nn.Module):
    """A sum of two signals with the same channels."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return a + b


class _Folding:
    """One network being folded; nodes are those of its graph."""

    def __init__(self, small: Compact) -> None:
        self.small = small
        self.body: Any = small.body

    def fold(self) -> None:
        for node in self._nodes(FIXED):
            if self._is_own(node.args[0]) and self._part(node).running_mean is not None:
                self._take_in_norm(node)
        sums = self._nodes(Merge)
        flat = any("flatten" in str(node.target) for node in self.body.graph.nodes)
        if flat or self._nodes((*NORMS, JointNorm)) or not all(self._is_own(node.args[1]) for node in sums):
            return  # a network of another build: what follows would have to move channels that others read
        if not (self._follow_each_other(sums) and self._zeros_stay()):
            return  # what a signal grows by for a sum has to be zero when it gets there, and no other sum may find it
        for node in sums:
            self._take_in_sum(node)

    def _zeros_stay(self) -> bool:
        """Whether every activation gives 0 back."""
        functions = [pointwise(node, self.body) for node in self.body.graph.nodes]
        return all(float(function(ZERO)) == 0 for function in functions if function is not None)

    def _nodes(self, kind: Any) -> list[Node]:
        calls = [node for node in self.body.graph.nodes if node.op == "call_module"]
        return [node for node in calls if isinstance(self._part(node), kind)]

    def _part(self, node: Node) -> Any:
        return self.body.get_submodule(node.target)

    def _layer(self, node: Node) -> Any:
        """The convolution or linear layer of a node, or None."""
        part = self._part(node) if node.op == "call_module" else None
        return part if isinstance(part, MAPS) else None

    def _is_own(self, node: Node) -> bool:
        """Whether a node is a layer that nothing else reads."""
        return self._layer(node) is not None and len(node.users) == 1

    # ---- what layers take in

    def _take_in_norm(self, node: Node) -> None:
        norm, source = self._part(node), node.args[0]
        layer = self._layer(source)
        factor = (1 if norm.weight is None else norm.weight) / torch.sqrt(norm.running_var + norm.eps)
        bias = _bias(layer) - norm.running_mean
        layer.weight.mul_(factor.view(-1, *[1] * (layer.weight.ndim - 1)))
        layer.bias = nn.Parameter(bias * factor + (0 if norm.bias is None else norm.bias))
        node.replace_all_uses_with(source)
        self.body.graph.erase_node(node)
        self.body.delete_submodule(node.target)

    def _take_in_sum(self, node: Node) -> None:
        """The second signal gets a row for each channel of the sum, the first zeros for those it lacks."""
        merge, second = self._part(node), node.args[1]
        _set_weights(self._layer(second), *(_rows(x, merge.index) for x in _weights(self._layer(second))))
        setattr(self.body, node.target, Plain())
        for _ in range(merge.n_new):
            origin = self._way(node.args[0])[-1]
            self._append_row(origin)
            self._widen_readers(origin, but=node)

    # ---- where a signal comes from

    def _way(self, node: Node) -> list[Node]:
        """From a signal back to the layer that gives it its first channels, or to the images."""
        way = [node]
        while self._layer(way[-1]) is None and way[-1].op != "placeholder":
            way.append(way[-1].args[0])
        return way

    def _follow_each_other(self, sums: list[Node]) -> bool:
        """Whether of the sums that grow from one layer each reads the one before it."""
        last: dict[Node, Node] = {}
        for node in sums:
            way = self._way(node)
            if way[-1].op == "placeholder" or last.setdefault(way[-1], node) not in way:
                return False
            last[way[-1]] = node
        return True

    # ---- one more channel, of zeros

    def _append_row(self, node: Node) -> None:
        layer = self._layer(node)
        _set_weights(layer, *(torch.cat([x, torch.zeros_like(x[:1])]) for x in _weights(layer)))

    def _widen_readers(self, node: Node, but: Node) -> None:
        """Whoever reads the signal, but for one sum, reads one more channel, with weight 0."""
        for reader in list(node.users):
            if reader is but:
                continue
            layer = self.small.head if reader.op == "output" else self._layer(reader)
            if layer is not None:
                _set_weights(
                    layer, torch.cat([layer.weight, torch.zeros_like(layer.weight[:, :1])], dim=1), _bias(layer)
                )
                continue
            if reader.op == "call_module" and isinstance(self._part(reader), Plain):
                self._append_row(reader.args[1])
            self._widen_readers(reader, but)


def _bias(layer: nn.Conv2d | nn.Linear) -> Tensor:
    return layer.weight.new_zeros(len(layer.weight)) if layer.bias is None else layer.bias


def _weights(layer: nn.Conv2d | nn.Linear) -> tuple[Tensor, Tensor]:
    return layer.weight, _bias(layer)


def _rows(x: Tensor, index: Tensor) -> Tensor:
    """Rows by index; one past the end is a row of zeros."""
    return torch.cat([x, torch.zeros_like(x[:1])])[index]


def _set_weights(layer: nn.Conv2d | nn.Linear, weight: Tensor, bias: Tensor) -> None:
    """Other weights, and sizes that agree with them."""
    layer.weight, layer.bias = nn.Parameter(weight), nn.Parameter(bias)
    if isinstance(layer, nn.Conv2d):
        layer.out_channels, layer.in_channels = weight.shape[:2]
    else:
        layer.out_features, layer.in_features = weight.shape[:2]

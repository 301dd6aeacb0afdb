"""A compact network with as few operations as can be, for inference: the same answers, and no gradients.

Three things cost a small network more time than its multiplications. Norm layers are taken in by the layer before them.
A sum of signals with different channels becomes a plain addition, once both come with all of its channels, zero where
they have nothing to add. And what constant neurons contribute, a map behind a padded convolution, is what a channel
of ones would contribute through taps of its own: one channel of ones travels along, and the map is gone. An activation
may turn the ones into another constant; the taps are divided by it.
"""

from __future__ import annotations

import copy
from typing import Any, TypeAlias

import torch
from torch import Tensor, fx, nn

from snv.subnetworks.cutting import BatchNorm, Compact, Merge, Shifted, elementwise

Node: TypeAlias = Any  # of torch.fx, whose arguments may be anything

LARGE = 16.0
"""GELU, SiLU and the like give it back, where they would turn a 1 into less at every step, down to nothing."""


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
        self.ones: dict[Node, int] = {}  # where a signal has its channel of ones
        self.one = 1.0 if self._stays(1.0) else LARGE

    def fold(self) -> None:
        for node in self._nodes(BatchNorm):
            if self._is_own(node.args[0]):
                self._take_in_norm(node)
        sums = self._nodes(Merge)
        flat = any("flatten" in str(node.target) for node in self.body.graph.nodes)
        if flat or self._nodes(BatchNorm) or not all(self._is_own(node.args[1]) for node in sums):
            return  # a network of another build: what follows would have to move channels that others read
        if sums and not (self._follow_each_other(sums) and self._stays(0.0)):
            return  # what a signal grows by for a sum has to be zero when it gets there, and no other sum may find it
        for node in sums:
            self._take_in_sum(node)
        for node in self._nodes(Shifted):
            self._take_in_map(node)

    def _stays(self, value: float) -> bool:
        """Whether every activation gives ``value`` back."""
        functions = [elementwise(node, self.body) for node in self.body.graph.nodes]
        return all(float(f(torch.tensor([value]))) == value for f in functions if f is not None)

    def _nodes(self, kind: Any) -> list[Node]:
        calls = [node for node in self.body.graph.nodes if node.op == "call_module"]
        return [node for node in calls if isinstance(self._part(node), kind)]

    def _part(self, node: Node) -> Any:
        return self.body.get_submodule(node.target)

    def _layer(self, node: Node) -> Any:
        """The convolution or linear layer of a node, or None."""
        part = self._part(node) if node.op == "call_module" else None
        part = part.layer if isinstance(part, Shifted) else part
        return part if isinstance(part, nn.Conv2d | nn.Linear) else None

    def _is_own(self, node: Node) -> bool:
        """Whether a node is a layer that nothing else reads."""
        return self._layer(node) is not None and len(node.users) == 1

    # ---- what layers take in

    def _take_in_norm(self, node: Node) -> None:
        norm, before = self._part(node), node.args[0]
        layer, part = self._layer(before), self._part(before)
        factor = norm.weight / torch.sqrt(norm.running_var + norm.eps)
        layer.weight.mul_(_per_row(factor, layer.weight))
        layer.bias.copy_((layer.bias - norm.running_mean) * factor + norm.bias)
        if isinstance(part, Shifted):
            part.shift.mul_(factor.view(1, -1, 1, 1))
            part.taps.mul_(_per_row(factor, part.taps))
            part.base.mul_(factor)
        node.replace_all_uses_with(before)
        self.body.graph.erase_node(node)
        self.body.delete_submodule(node.target)

    def _take_in_sum(self, node: Node) -> None:
        """The second signal gets a row for each channel of the sum, the first zeros for those it lacks."""
        merge, second = self._part(node), node.args[1]
        layer, part = self._layer(second), self._part(second)
        layer.weight.data = _rows(layer.weight, merge.index)
        layer.bias.data = _rows(layer.bias, merge.index) + merge.shift.flatten()
        _set_sizes(layer)
        if isinstance(part, Shifted):
            part.shift = _rows(part.shift.transpose(0, 1), merge.index).transpose(0, 1)
            part.taps, part.base = _rows(part.taps, merge.index), _rows(part.base, merge.index)
        setattr(self.body, node.target, Plain())
        for _ in range(merge.n_new):
            self._append(node.args[0], 0.0, told=node)

    def _take_in_map(self, node: Node) -> None:
        """taps become the weights that read the channel of ones, divided by what the ones are there."""
        part, source = self._part(node), node.args[0]
        place = self._place_of_ones(source)
        if place is None:
            return
        layer = part.layer
        arriving = self._on_arrival(source, layer.weight.new_tensor([self.one]))
        layer.weight[:, place] += part.taps[:, 0] / arriving
        layer.bias += part.base
        setattr(self.body, node.target, layer)

    def _place_of_ones(self, node: Node) -> int | None:
        """Where the signal has a channel of ones; one is appended if it has none and can have one."""
        origin = self._origin(node)
        if origin is None:
            return None
        if origin not in self.ones:
            self.ones[origin] = self._width(origin)
            self._append(node, self.one)
        return self.ones[origin]

    def _on_arrival(self, node: Node, value: Tensor) -> Tensor:
        """What a constant channel of a signal has become on its way from the layer that makes it."""
        for step in reversed(self._way(node)):
            function = elementwise(step, self.body)
            value = value if function is None else function(value)
        return value

    # ---- where a signal comes from

    def _way(self, node: Node) -> list[Node]:
        """From a signal back to the layer that gives it its first channels, or to the images."""
        way = [node]
        while self._layer(way[-1]) is None and way[-1].op != "placeholder":
            way.append(way[-1].args[0])
        return way

    def _origin(self, node: Node) -> Node | None:
        """The layer that gives a signal its first channels."""
        origin = self._way(node)[-1]
        return None if origin.op == "placeholder" else origin

    def _follow_each_other(self, sums: list[Node]) -> bool:
        """Whether of the sums that grow from one layer each reads the one before it."""
        last: dict[Node, Node] = {}
        for node in sums:
            way = self._way(node)
            if last.setdefault(way[-1], node) not in way:
                return False
            last[way[-1]] = node
        return True

    # ---- one more channel

    def _width(self, node: Node) -> int:
        return int(self._layer(node).weight.shape[0])

    def _append(self, node: Node, value: float, told: Node | None = None) -> None:
        """One more channel of a constant value at the end of a signal, made by the layer it comes from."""
        origin = self._origin(node)
        assert origin is not None
        self._append_row(origin, value)
        self._tell_readers(origin, told)

    def _append_row(self, node: Node, value: float) -> None:
        layer, part = self._layer(node), self._part(node)
        layer.weight.data = torch.cat([layer.weight, torch.zeros_like(layer.weight[:1])])
        layer.bias.data = torch.cat([layer.bias, layer.bias.new_tensor([value])])
        _set_sizes(layer)
        if isinstance(part, Shifted):
            part.shift = torch.cat([part.shift, torch.zeros_like(part.shift[:, :1])], dim=1)
            part.taps = torch.cat([part.taps, torch.zeros_like(part.taps[:1])])
            part.base = torch.cat([part.base, part.base.new_zeros(1)])

    def _tell_readers(self, node: Node, told: Node | None) -> None:
        """Whoever reads the signal reads one more channel, with weight 0; ``told`` is a sum that knows already."""
        for reader in list(node.users):
            if reader is told:
                continue
            if (layer := self._layer(reader)) is not None:
                layer.weight.data = _one_more_column(layer.weight)
                _set_sizes(layer)
            elif reader.op == "output":
                self.small.head.weight.data = _one_more_column(self.small.head.weight)
                _set_sizes(self.small.head)
            else:
                if reader.op == "call_module" and isinstance(self._part(reader), Plain):
                    self._append_row(reader.args[1], 0.0)
                self._tell_readers(reader, told)


def _per_row(factor: Tensor, weight: Tensor) -> Tensor:
    return factor.view(-1, *[1] * (weight.ndim - 1))


def _rows(x: Tensor, index: Tensor) -> Tensor:
    """Rows by index; one past the end is a row of zeros."""
    return torch.cat([x, torch.zeros_like(x[:1])])[index]


def _one_more_column(weight: Tensor) -> Tensor:
    return torch.cat([weight, torch.zeros_like(weight[:, :1])], dim=1)


def _set_sizes(layer: nn.Conv2d | nn.Linear) -> None:
    """What a layer says of itself, from its weights."""
    rows, columns = layer.weight.shape[:2]
    if isinstance(layer, nn.Conv2d):
        layer.out_channels, layer.in_channels = rows, columns
    else:
        layer.out_features, layer.in_features = rows, columns

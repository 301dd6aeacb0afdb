"""A task's subnetwork cut out of the dense one: only the rows and columns of its neurons.

All other neurons are silent, so nothing of them is left. The result is an ordinary module: smaller, faster, trainable,
exportable; `snv.subnetworks.trainee` returns what it learned to the dense network.
"""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from snv.errors import UserError
from snv.networks import DROPOUTS, FUNCTIONS, NORM_PARTS, Kind, cut_linear, kind_of, places, rearranged
from snv.neurons import Neurons, as_module, call_settings, graph_of, operation_name, over_positions, told_to_train
from snv.shapes import Indices, Mask
from snv.subnetworks.subnetwork import Subnetwork

ZERO = torch.zeros(1, 1, 1, 1)
SUMS = (operator.add, operator.iadd, torch.add)


@dataclass(frozen=True, eq=False)
class Signal:
    """A tensor of the dense network as the small one has it: live channels only, the others being zeros."""

    node: fx.Node  # holds the live channels, in the order of ``live``
    live: Indices
    n: int  # channels in the dense network
    size: tuple[int, ...]  # height and width; empty for features


@dataclass(frozen=True, eq=False)
class Link:
    """A layer of the small network and the rows and columns of the dense one it was cut from."""

    small: nn.Module
    dense: nn.Module
    rows: Indices
    columns: Indices | None = None  # None: a norm layer, which has rows only

    @property
    def trained(self) -> list[Tensor]:
        """Weight and, if there is one, bias of the small layer."""
        return list(self.small.parameters(recurse=False))


class Merge(nn.Module):
    """The sum of two signals with different live channels: those of the first, then those only the second has."""

    def __init__(self, a: Signal, b: Signal) -> None:
        super().__init__()
        new = b.live[places(a.live, a.n)[b.live] == len(a.live)]
        self.live = torch.cat([a.live, new])
        self.n_new = len(new)
        self.index: Tensor
        self.register_buffer("index", places(b.live, b.n)[self.live])
        self.in_order = torch.equal(a.live, b.live)  # nothing to move

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        first = F.pad(a, (*[0, 0] * (a.ndim - 2), 0, self.n_new)) if self.n_new else a
        return first + (b if self.in_order else rearranged(b, self.index))


class Compact(nn.Module):
    """The subnetwork as a module of its own: images → features of the live channels → logits of one head."""

    def __init__(self, body: nn.Module, head: nn.Linear, live: Indices) -> None:
        super().__init__()
        self.body, self.head = body, head
        self.order: Tensor
        self.register_buffer("order", live.argsort(), persistent=False)

    def features(self, images: Tensor) -> Tensor:
        """The live features in the order of the dense network, whatever order they have inside."""
        return self.in_order(self.body(images))

    def in_order(self, features: Tensor) -> Tensor:
        return features.index_select(1, self.order)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.head(self.body(images))
        return logits


def compact(
    body: nn.Module, head: nn.Linear, neurons: Neurons, subnetwork: Subnetwork, shape: tuple[int, int, int]
) -> tuple[Compact, list[Link]]:
    """A subnetwork of ``body`` with its head, for images of ``shape``, and where its parts came from.

    ``neurons`` are those of ``body``. The result lives where ``head`` does.
    """
    cutter = _Cutter(body, neurons, subnetwork.mask, shape, subnetwork.norm)
    with torch.no_grad():
        signal = cutter.cut()
    rows = torch.arange(head.out_features)
    small = cut_linear(head, rows, signal.live)
    whole = Compact(cutter.finished(signal), small, signal.live).to(head.weight.device)
    return whole, [*cutter.links, Link(small, head, rows, signal.live)]


def require_cuttable(body: nn.Module, neurons: Neurons, shape: tuple[int, int, int]) -> None:
    """Refuse a network out of which some subnetworks cannot be cut, before it is trained."""
    first = torch.zeros(neurons.n, dtype=torch.bool)
    first[[layer.start for layer in neurons.layers]] = True
    cutter = _Cutter(body, neurons, first, shape, norm={})
    with torch.no_grad():
        cutter.cut()
    layers = [link.dense for link in cutter.links]
    for layer in layers:
        if layers.count(layer) > 1:
            raise UserError(
                f"Your network calls a {type(layer).__name__} layer twice; a subnetwork would train each call for "
                "itself. Give each call its own layer."
            )


class _Cutter:
    """Walks through the dense graph and builds the small one.

    Indices are on the CPU: from there they reach into tensors of any device.
    """

    def __init__(
        self, body: nn.Module, neurons: Neurons, mask: Mask, shape: tuple[int, int, int], norm: dict[str, Tensor]
    ) -> None:
        """``norm``: the state of norm layers by name; of those that are not there it is the body's."""
        self.body, self.shape, self.mask, self.norm = body, shape, mask.cpu(), norm
        self.players = {layer.module: layer for layer in neurons.layers}
        self.silenced = {norm.module for norm in neurons.norms}
        self.parts = nn.Module()
        self.graph = fx.Graph()
        self.links: list[Link] = []
        self.signals: dict[fx.Node, Signal] = {}

    def cut(self) -> Signal:
        """The features as a signal of the small network."""
        for node in graph_of(self.body).nodes:
            match node.op:
                case "placeholder":
                    channels = torch.arange(self.shape[0])
                    self.signals[node] = Signal(
                        self.graph.placeholder("images"), channels, len(channels), self.shape[1:]
                    )
                case "output":
                    return self.signals[node.args[0]]
                case "get_attr":
                    continue  # no signal; refused where it is read
                case _:
                    self.signals[node] = self._operation(node)
        raise UserError("The network has no output, so nothing can be cut out of it.")

    def finished(self, signal: Signal) -> fx.GraphModule:
        self.graph.output(signal.node)
        return as_module(self.parts, self.graph)

    def _operation(self, node: fx.Node) -> Signal:
        """What a node makes of the signals it reads."""
        x, *others = self._inputs(node)
        if node.target in SUMS and len(others) == 1 and not node.kwargs:
            return self._sum(x, others[0])
        module = self.body.get_submodule(str(node.target)) if node.op == "call_module" else None
        kind = None if others else FUNCTIONS.get(operation_name(node)) if module is None else kind_of(module)
        match kind:
            case Kind(family="map") if module is not None:
                return self._map(module, kind, x)
            case Kind(family="norm") if module is not None:
                return self._norm(str(node.target), module, kind, x)
            case Kind(family="pointwise") if module is None and operation_name(node) in DROPOUTS:
                return self._dropout(node, x)
            case Kind(family="pointwise"):
                return self._pointwise(node, module, x)
            case Kind(family="pool") if x.size and "2d" in (
                operation_name(node) if module is None else type(module).__name__
            ):
                return self._pooled(node, module, x)
            case Kind(family="shape") if x.size and _to_features(node, module, x):
                return self._flat(x)
        if operation_name(node) == "mean" and x.size and over_positions(node):
            return replace(x, node=self.graph.call_method("mean", (x.node, (2, 3))), size=())
        if module is not None:
            _refuse(module)
        raise UserError(
            f"The operation {operation_name(node)!r} cannot be cut out. Use a layer that does the same instead."
        )

    def _inputs(self, node: fx.Node) -> list[Signal]:
        """The signals that a node reads."""
        for parent in node.all_input_nodes:
            if parent.op == "get_attr":
                raise UserError(
                    f"The operation {operation_name(node)!r} reads the network's tensor {parent.target!r} itself, and "
                    "only what layers read can be cut out. Replace both by a convolution, a linear layer or BatchNorm."
                )
        return [self.signals[parent] for parent in node.all_input_nodes]

    def _map(self, module: Any, kind: Kind, x: Signal) -> Signal:
        """The rows of kept neurons and live columns of a layer of players."""
        features = isinstance(module, nn.Linear)
        if kind.cut is None or features == bool(x.size) or getattr(module, "groups", 1) != 1:
            _refuse(module)
        if "weight" not in module._parameters:
            raise UserError(
                f"The weight of a {type(module).__name__} layer is computed from other tensors (weight_norm or "
                "spectral_norm), so it cannot be cut out. Remove that from the network."
            )
        layer, n = self.players.get(module), len(module.weight)
        rows = torch.arange(n) if layer is None else self.mask[layer.neurons].nonzero()[:, 0]
        if len(rows) == 0 or len(x.live) == 0:
            raise UserError(
                f"The mask cuts the network in two: {layer.name if layer else 'a layer'} keeps {len(rows)} neurons and "
                f"reads {len(x.live)}. Keep at least one neuron of every layer."
            )
        small = kind.cut(module, rows, x.live)
        self.links.append(Link(small, module, rows, x.live))
        return Signal(self._call(small, x.node), rows, n, () if features else _size_after(module, x.size))

    def _norm(self, name: str, norm: Any, kind: Kind, x: Signal) -> Signal:
        """The norm layer of the live channels, which must leave the zeros of all others zeros."""
        if kind.cut is None or (isinstance(norm, nn.LayerNorm) and norm.normalized_shape != (x.n, *x.size)):
            _refuse(norm)
        plain = norm.weight is None and getattr(norm, "running_mean", None) is None and not kind.joint
        if len(x.live) < x.n and not plain and (norm.weight is None or norm not in self.silenced):
            raise UserError(
                f"A {type(norm).__name__} layer turns the zeros of silent neurons into other numbers, so no subnetwork "
                "can be cut out. Give it weights of its own (affine), and let it read one layer, right behind it."
            )
        small = kind.cut(norm, x.live, x.live)
        for part in NORM_PARTS:
            if (own := self.norm.get(f"{name}.{part}")) is not None:
                getattr(small, part).copy_(own[x.live])
        self.links.append(Link(small, norm, x.live))
        return replace(x, node=self._call(small, x.node))

    def _pointwise(self, node: fx.Node, module: nn.Module | None, x: Signal) -> Signal:
        function = pointwise(node, self.body)
        assert function is not None
        if len(x.live) < x.n and bool(function(ZERO) != 0):
            name = operation_name(node) if module is None else type(module).__name__
            raise UserError(
                f"The function {name!r} turns the zeros of silent neurons into other numbers, so no subnetwork can be "
                "cut out. Use one that leaves 0 as it is, such as ReLU, GELU or tanh."
            )
        return replace(x, node=self._again(node, module, x))

    def _dropout(self, node: fx.Node, x: Signal) -> Signal:
        """As a layer, which knows when the small network trains: the function was told when the dense one was cut."""
        name, layer = operation_name(node), DROPOUTS[operation_name(node)]
        if (told := told_to_train(self.body, node)) != [False, True]:
            raise UserError(
                f"The function {name!r} should drop only while the network trains; it is given training={told[0]} when "
                f"that answers and {told[1]} when it trains. Give it self.training, or use nn.{layer.__name__}."
            )
        args, kwargs = call_settings(node)
        settings = dict(zip(("p", "training"), args, strict=False)) | kwargs
        return replace(x, node=self._call(layer(settings["p"], settings.get("inplace", False)), x.node))

    def _pooled(self, node: fx.Node, module: nn.Module | None, x: Signal) -> Signal:
        pool: Any = node.target if module is None else module
        args, kwargs = call_settings(node)
        size = pool(torch.zeros(1, 1, *x.size), *args, **kwargs).shape[2:]
        return replace(x, node=self._again(node, module, x), size=tuple(size))

    def _flat(self, x: Signal) -> Signal:
        """(b, c, h, w) as (b, c·h·w): every channel becomes h·w features."""
        span = math.prod(x.size)
        live = (x.live[:, None] * span + torch.arange(span)).flatten()
        return Signal(self.graph.call_method("flatten", (x.node, 1)), live, x.n * span, ())

    def _sum(self, a: Signal, b: Signal) -> Signal:
        if len(b.node.users) > len(a.node.users):  # what is used elsewhere comes first, so that the other can be folded
            a, b = b, a
        shapes = [(x.n, *x.size) for x in (a, b)]
        if shapes[0] != shapes[1]:
            raise UserError(
                f"A sum of signals of different shapes cannot be cut out; found {shapes[0]} and {shapes[1]}. "
                "Give them the same shape."
            )
        merge = Merge(a, b)
        return replace(a, node=self._call(merge, a.node, b.node), live=merge.live)

    def _again(self, node: fx.Node, module: nn.Module | None, x: Signal) -> fx.Node:
        """The same operation on the live channels."""
        if module is not None:
            return self._call(copy.deepcopy(module), x.node)
        args, kwargs = call_settings(node)
        return self.graph.create_node(node.op, node.target, (x.node, *args), kwargs)

    def _call(self, part: nn.Module, *inputs: fx.Node) -> fx.Node:
        name = f"part{len(self.parts._modules)}"
        self.parts.add_module(name, part)
        return self.graph.call_module(name, inputs)


def pointwise(node: fx.Node, body: nn.Module) -> Callable[[Tensor], Tensor] | None:
    """The function that a node of ``body`` applies to every element, with its settings; None if it is another node."""
    target: Any = node.target
    if node.op == "call_module":
        module = body.get_submodule(target)
        kind = kind_of(module)
        return copy.deepcopy(module).eval() if kind is not None and kind.family == "pointwise" else None
    kind = FUNCTIONS.get(operation_name(node))
    if kind is None or kind.family != "pointwise" or len(node.all_input_nodes) != 1:
        return None
    args, kwargs = call_settings(node)
    if node.op == "call_method":
        return lambda x: getattr(x, target)(*args, **kwargs)
    return lambda x: target(x, *args, **kwargs)


def _refuse(module: nn.Module) -> NoReturn:
    raise UserError(
        f"{type(module).__name__} layers cannot be cut out here, only convolutions without groups, linear layers of "
        "features, norm layers over channels, pooling and functions of single elements. Replace it by one of these."
    )


def _size_after(layer: nn.Conv2d, size: tuple[int, ...]) -> tuple[int, ...]:
    """Height and width of the maps that a convolution makes."""
    if layer.padding == "same":
        return size
    padding = (0, 0) if isinstance(layer.padding, str) else layer.padding
    steps = zip(size, padding, layer.dilation, layer.kernel_size, layer.stride, strict=True)
    return tuple(
        (n + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1 for n, pad, dilation, kernel, stride in steps
    )


def _to_features(node: fx.Node, module: nn.Module | None, x: Signal) -> bool:
    """Whether a node makes (b, c·h·w) of (b, c, h, w)."""
    args, kwargs = call_settings(node)
    if isinstance(module, nn.Flatten) or operation_name(node) == "flatten":
        settings = dict(zip(("start_dim", "end_dim"), args, strict=False)) | kwargs
        first, last = settings.get("start_dim", 0), settings.get("end_dim", -1)
        if isinstance(module, nn.Flatten):
            first, last = module.start_dim, module.end_dim
        return (first, last) in ((1, -1), (1, 3))
    shape = tuple(args[0] if len(args) == 1 else args) if args else tuple(kwargs.get("shape", ()))
    return shape == (-1, x.n * math.prod(x.size))

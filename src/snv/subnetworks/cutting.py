"""A task's subnetwork cut out of the dense one: only the rows and columns of its neurons, the rest folded away.

A neuron outside the task is a constant. A constant channel through a padded convolution is constant inside and
different at the border, so what all constants contribute together is a map, exact for one input size. The result is an
ordinary module: smaller, faster, trainable, exportable; `write_back` returns what it learned to the dense network.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from snv.components import bits
from snv.errors import UserError
from snv.networks import mend
from snv.neurons import Neurons, graph_of
from snv.shapes import Entries, Indices, Mask

BatchNorm = nn.BatchNorm1d | nn.BatchNorm2d
ELEMENTWISE_MODULES = (nn.ReLU, nn.ReLU6, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.LeakyReLU, nn.ELU, nn.Hardswish)
ELEMENTWISE_NAMES = ("relu", "relu_", "relu6", "gelu", "silu", "tanh", "sigmoid", "leaky_relu", "elu", "hardswish")
POOLINGS = ("max_pool2d", "boolean_dispatch", "adaptive_avg_pool2d", "adaptive_max_pool2d")  # a constant stays itself


@dataclass(frozen=True, eq=False)
class Signal:
    """A tensor of the dense network as the small one has it: some channels live, the others constant."""

    node: fx.Node  # holds the live channels, in the order of ``live``
    live: Indices
    constants: Tensor  # (channels,): the values of the others, 0 for live ones
    size: tuple[int, ...]  # height and width; empty for features


@dataclass(frozen=True, eq=False)
class Link:
    """A layer of the small network and the rows and columns of the dense one it was cut from."""

    small: nn.Module
    dense: nn.Module
    rows: Indices
    columns: Indices | None = None  # None: a norm layer, which has rows only
    silent: Entries | None = None  # dense columns that read exactly 0 whatever the image: their weights are free
    bias: Tensor | None = None  # of the small layer when it was cut, what constants add included; None: not trained

    @property
    def trained(self) -> list[Tensor]:
        """Weight and, if it is trained, bias of the small layer."""
        small: Any = self.small
        return [small.weight] if self.bias is None else [small.weight, small.bias]


class Shifted(nn.Module):
    """A layer plus a fixed map: what constant inputs contribute to it.

    The map is ``base`` plus what a channel of ones contributes through ``taps`` (rows, 1, height, width).
    """

    def __init__(self, layer: nn.Conv2d, shift: Tensor) -> None:
        super().__init__()
        self.layer = layer
        self.shift: Tensor
        self.taps: Tensor
        self.base: Tensor
        self.register_buffer("shift", shift)
        self.register_buffer("taps", torch.zeros_like(layer.weight[:, :1], requires_grad=False), persistent=False)
        self.register_buffer("base", torch.zeros_like(shift[0, :, 0, 0]), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(x) + self.shift
        return out


class Merge(nn.Module):
    """The sum of two signals with different live channels: those of the first, then those only the second has."""

    def __init__(self, a: Signal, b: Signal) -> None:
        super().__init__()
        place = _places(b)
        new = b.live[_places(a)[b.live] < 0]
        self.live = torch.cat([a.live, new])
        self.n_new = len(new)
        self.index: Tensor
        self.shift: Tensor
        found = place[self.live]
        self.register_buffer("index", torch.where(found < 0, len(b.live), found))  # one past the end: a zero
        self.register_buffer("shift", _as_map((a.constants + b.constants)[self.live], a.size))
        self.in_order = torch.equal(a.live, b.live)  # nothing to move
        self.silent = not bool(self.shift.any())  # nothing to add

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        there = b if self.in_order else _padded(b, 1).index_select(1, self.index)
        both = _padded(a, self.n_new) + there
        return both if self.silent else both + self.shift


def _padded(x: Tensor, n: int) -> Tensor:
    """``n`` more channels of zeros."""
    return F.pad(x, (*[0, 0] * (x.ndim - 2), 0, n)) if n else x


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
    body: nn.Module, head: nn.Linear, neurons: Neurons, mask: Mask, means: Tensor, shape: tuple[int, int, int]
) -> tuple[Compact, list[Link]]:
    """The part of ``body`` and ``head`` that ``mask`` keeps, for images of ``shape``, and where its parts came from.

    ``neurons`` are those of ``body``, ``means`` the responses that neurons outside the mask are held at, before
    normalisation. Norm layers are read in evaluation mode, as they are now. The result lives where ``head`` does.
    """
    cutter = _Cutter(body, neurons, mask, means, shape)
    with torch.no_grad():
        signal = cutter.cut()
        rows = torch.arange(head.out_features)
        small = _rows_and_columns(head, rows, signal.live)
        _shifted(small, head(signal.constants[None].to(head.weight)))
    assert isinstance(small, nn.Linear)
    whole = Compact(cutter.finished(signal), small, signal.live).to(head.weight.device)
    return whole, [*cutter.links, _link(small, head, rows, signal)]


@torch.no_grad()
def write_back(links: list[Link]) -> None:
    """Put what the small network has learned into the rows and columns of the dense one it was cut from."""
    for link in links:
        if link.columns is None:
            for name in ("weight", "bias", "running_mean", "running_var"):
                getattr(link.dense, name)[link.rows] = getattr(link.small, name)
        else:
            dense: Any = link.dense
            dense.weight[link.rows[:, None], link.columns] = link.small.weight
            if link.bias is not None:
                small: Any = link.small
                dense.bias[link.rows] = _learned_bias(dense.bias[link.rows], link.bias, small.bias)


def _learned_bias(dense: Tensor, cut: Tensor, learned: Tensor) -> Tensor:
    """The dense bias after its part in the small layer went from ``cut`` to ``learned``.

    What was not learned keeps its bits, which a sum would not: −0 + 0 = 0. Where constants had added nothing, the
    learned bits are the dense ones.
    """
    moved = (bits(learned) ^ bits(cut)) != 0
    return torch.where(moved, torch.where(cut == dense, learned, dense + (learned - cut)), dense)


class _Cutter:
    """Walks through the dense graph and builds the small one.

    Constants are where the dense network is, indices on the CPU: from there they reach into tensors of any device.
    """

    def __init__(
        self, body: nn.Module, neurons: Neurons, mask: Mask, means: Tensor, shape: tuple[int, int, int]
    ) -> None:
        self.body, self.shape = body, shape
        self.players = {layer.module: layer for layer in neurons.layers}
        weights = next(body.parameters(), means)
        self.mask, self.means = mask.cpu(), means.detach().to(weights)
        self.parts = nn.Module()
        self.graph = fx.Graph()
        self.links: list[Link] = []
        self.signals: dict[fx.Node, Signal] = {}

    def cut(self) -> Signal:
        """The features as a signal of the small network."""
        for node in graph_of(self.body).nodes:
            match node.op:
                case "placeholder":
                    channels = self.shape[0]
                    nothing = self.means.new_zeros(channels)
                    images = self.graph.placeholder("images")
                    self.signals[node] = Signal(images, torch.arange(channels), nothing, self.shape[1:])
                case "output":
                    return self.signals[node.args[0]]
                case "get_attr":
                    continue  # no signal; refused where it is read
                case "call_module":
                    module = self.body.get_submodule(str(node.target))
                    self.signals[node] = self._module(module, self._inputs(node)[0])
                case _:
                    self.signals[node] = self._function(node)
        raise UserError("The network has no output, so nothing can be cut out of it.")

    def finished(self, signal: Signal) -> fx.GraphModule:
        self.graph.output(signal.node)
        return fx.GraphModule(self.parts, self.graph)

    def _inputs(self, node: fx.Node) -> list[Signal]:
        """The signals that a node reads."""
        for parent in node.all_input_nodes:
            if parent.op == "get_attr":
                raise UserError(
                    f"The operation {_name(node)!r} reads the network's tensor {parent.target!r} itself, and only what "
                    "layers read can be cut out. Replace the two by a convolution, a linear layer or BatchNorm, or use "
                    "the masked network instead."
                )
        return [self.signals[parent] for parent in node.all_input_nodes]

    def _module(self, module: nn.Module, x: Signal) -> Signal:
        match module:
            case nn.Conv2d() if module.groups == 1:
                shift = module(_as_map(x.constants, x.size).expand(1, -1, *x.size))
                return self._layer(module, x, shift, tuple(shift.shape[2:]))
            case nn.Linear() if not x.size:
                return self._layer(module, x, module(x.constants[None]), ())
            case nn.BatchNorm1d() | nn.BatchNorm2d() if module.affine and module.track_running_stats:
                return self._norm(module, x)
            case nn.MaxPool2d() | nn.AdaptiveAvgPool2d() | nn.AdaptiveMaxPool2d() | nn.Identity():
                size = module(torch.zeros(1, 1, *x.size, device=x.constants.device)).shape[2:] if x.size else ()
                return replace(x, node=self._call(module, x.node), size=tuple(size))
            case nn.Flatten(start_dim=1, end_dim=-1) if x.size:
                return self._flat(x)
            case _ if isinstance(module, ELEMENTWISE_MODULES):
                return replace(x, node=self._call(module, x.node), constants=_silenced(module(x.constants), x.live))
        raise UserError(
            f"{type(module).__name__} layers cannot be cut out, only convolutions without groups, linear layers, "
            "BatchNorm with weights and statistics, pooling and element-wise functions. Use the masked network instead."
        )

    def _layer(self, module: nn.Conv2d | nn.Linear, x: Signal, shift: Tensor, size: tuple[int, ...]) -> Signal:
        """The kept rows and live columns of a layer of players, plus what its constant inputs add."""
        if "weight" not in module._parameters:
            raise UserError(
                f"The weight of a {type(module).__name__} layer is computed from other tensors (weight_norm or "
                "spectral_norm), so it cannot be cut out. Remove that from the network or use the masked network."
            )
        layer = self.players.get(module)
        if layer is None:
            kept = torch.arange(len(module.weight))
            constants = x.constants.new_zeros(len(module.weight))
        else:
            kept = self.mask[layer.neurons].nonzero()[:, 0]
            constants = _silenced(self.means[layer.responses], kept)
        if len(kept) == 0 or len(x.live) == 0:
            raise UserError(
                f"The mask cuts the network in two: {layer.name if layer else 'a layer'} keeps {len(kept)} neurons and "
                f"reads {len(x.live)}. Keep at least one neuron of every layer."
            )
        small = _rows_and_columns(module, kept, x.live)
        part = _shifted(small, shift[:, kept])
        if isinstance(part, Shifted):
            part.taps = torch.tensordot(module.weight[kept], x.constants, dims=([1], [0]))[:, None]
            part.base = module.bias[kept] if module.bias is not None else torch.zeros_like(part.base)
        self.links.append(_link(small, module, kept, x))
        return Signal(self._call(part, x.node), kept, constants, size)

    def _norm(self, norm: BatchNorm, x: Signal) -> Signal:
        small = type(norm)(len(x.live), norm.eps, norm.momentum).to(norm.weight)
        for name in ("weight", "bias", "running_mean", "running_var"):
            getattr(small, name).copy_(getattr(norm, name)[x.live])
        self.links.append(Link(small, norm, x.live))
        statistics = (norm.running_mean, norm.running_var, norm.weight, norm.bias)
        constants = F.batch_norm(x.constants[None], *statistics, training=False, eps=norm.eps)[0]
        return replace(x, node=self._call(small, x.node), constants=_silenced(constants, x.live))

    def _function(self, node: fx.Node) -> Signal:
        """Additions, element-wise functions and poolings that are no modules."""
        inputs, name = self._inputs(node), _name(node)
        if node.target in (operator.add, operator.iadd, torch.add) and len(inputs) == 2 and not node.kwargs:
            return self._sum(*inputs)
        x = inputs[0]
        if (function := elementwise(node, self.body)) is not None:
            args, kwargs = _settings(node)
            made = self.graph.create_node(node.op, node.target, (x.node, *args), kwargs)
            return replace(x, node=made, constants=_silenced(function(x.constants), x.live))
        if name == "mean" and _over_positions(node) and x.size:
            return replace(x, node=self.graph.call_method("mean", (x.node, (2, 3))), size=())
        if name in POOLINGS:
            pool: Any = node.target
            args, kwargs = _settings(node)
            size = pool(torch.zeros(1, 1, *x.size), *args, **kwargs).shape[2:]
            made = self.graph.call_function(pool, (x.node, *args), kwargs)
            return replace(x, node=made, size=tuple(size))
        if x.size and _to_features(node, len(x.constants) * math.prod(x.size)):
            return self._flat(x)
        raise UserError(f"The operation {name!r} cannot be cut out. Use the masked network instead.")

    def _flat(self, x: Signal) -> Signal:
        """(b, c, h, w) as (b, c·h·w): every channel becomes h·w features."""
        span = math.prod(x.size)
        live = (x.live[:, None] * span + torch.arange(span)).flatten()
        made = self.graph.call_method("flatten", (x.node, 1))
        return Signal(made, live, x.constants.repeat_interleave(span), ())

    def _sum(self, a: Signal, b: Signal) -> Signal:
        if len(b.node.users) > len(a.node.users):  # what is used elsewhere comes first, so that the other can be folded
            a, b = b, a
        shapes = [(len(x.constants), *x.size) for x in (a, b)]
        if shapes[0] != shapes[1]:
            raise UserError(
                f"A sum of signals of different shapes cannot be cut out; found {shapes[0]} and {shapes[1]}. "
                "Give them the same shape or use the masked network instead."
            )
        merge = Merge(a, b)
        constants = _silenced(a.constants + b.constants, merge.live)
        return Signal(self._call(merge, a.node, b.node), merge.live, constants, a.size)

    def _call(self, part: nn.Module, *inputs: fx.Node) -> fx.Node:
        name = f"part{len(self.parts._modules)}"  # children() would count a module that is called twice once
        self.parts.add_module(name, part)
        return self.graph.call_module(name, inputs)


def elementwise(node: fx.Node, body: nn.Module) -> Callable[[Tensor], Tensor] | None:
    """The function that a node of ``body`` applies to every element, with its settings; None if it is another node."""
    target: Any = node.target
    if node.op == "call_module":
        module = body.get_submodule(target)
        return module if isinstance(module, ELEMENTWISE_MODULES) else None
    if _name(node) not in ELEMENTWISE_NAMES or len(node.all_input_nodes) != 1:
        return None
    args, kwargs = _settings(node)
    if node.op == "call_method":
        return lambda x: getattr(x, target)(*args, **kwargs)
    return lambda x: target(x, *args, **kwargs)


def _name(node: fx.Node) -> str:
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")


def _settings(node: fx.Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call besides the signal it reads, by position and by name."""
    by_position = tuple(x for x in node.args if not isinstance(x, fx.Node))
    return by_position, {name: x for name, x in node.kwargs.items() if not isinstance(x, fx.Node)}


def _places(signal: Signal) -> Indices:
    """Where each channel stands among the live ones; −1 if it is constant."""
    places = torch.full((len(signal.constants),), -1)
    places[signal.live] = torch.arange(len(signal.live))
    return places


def _silenced(constants: Tensor, live: Indices) -> Tensor:
    constants = constants.detach().clone()
    constants[live] = 0
    return constants


def _as_map(values: Tensor, size: tuple[int, ...]) -> Tensor:
    """One value per channel in a shape that adds to (b, c, h, w) or (b, c)."""
    return values.reshape(1, -1, *[1] * len(size))


def _rows_and_columns(module: nn.Conv2d | nn.Linear, rows: Indices, columns: Indices) -> nn.Conv2d | nn.Linear:
    weight = module.weight.detach()[rows][:, columns]
    small: nn.Conv2d | nn.Linear
    if isinstance(module, nn.Linear):
        small = nn.Linear(len(columns), len(rows), device=weight.device, dtype=weight.dtype)
    else:
        kernel, stride, padding, dilation = module.kernel_size, module.stride, module.padding, module.dilation
        small = nn.Conv2d(
            len(columns),
            len(rows),
            kernel,  # type: ignore[arg-type]
            stride,  # type: ignore[arg-type]
            padding,  # type: ignore[arg-type]
            dilation,  # type: ignore[arg-type]
            padding_mode=module.padding_mode,
            device=weight.device,
            dtype=weight.dtype,
        )
    mend(small)
    small.weight.data = weight.contiguous(memory_format=torch.channels_last) if weight.ndim == 4 else weight.clone()
    return small


def _shifted(small: nn.Conv2d | nn.Linear, shift: Tensor) -> nn.Module:
    """The layer with the shift as its bias where it is the same everywhere, else with a map behind it."""
    assert small.bias is not None
    first = shift.flatten(2)[..., :1] if shift.ndim == 4 else shift[..., None]  # (1, rows, 1)
    if bool((shift.flatten(2) == first).all() if shift.ndim == 4 else True):
        small.bias.data = first[0, :, 0].clone()
        return small
    small.bias.data = torch.zeros_like(small.bias)
    assert isinstance(small, nn.Conv2d)
    return Shifted(small, shift.clone())


def _link(small: nn.Conv2d | nn.Linear, dense: nn.Conv2d | nn.Linear, rows: Indices, x: Signal) -> Link:
    """A bias that only holds what constants add is not trained."""
    assert small.bias is not None
    silent = x.constants == 0
    silent[x.live] = False
    if dense.bias is None:
        small.bias.requires_grad_(False)
        return Link(small, dense, rows, x.live, silent)
    return Link(small, dense, rows, x.live, silent, small.bias.detach().clone())


def _to_features(node: fx.Node, n: int) -> bool:
    """Whether a node makes (b, n) of (b, c, h, w)."""
    args, kwargs = _settings(node)
    if _name(node) == "flatten":
        given = dict(zip(("start_dim", "end_dim"), args, strict=False)) | kwargs
        return (given.get("start_dim", 0), given.get("end_dim", -1)) in ((1, -1), (1, 3))
    if _name(node) in ("view", "reshape"):
        shape = tuple(args[0] if len(args) == 1 else args) if args else tuple(kwargs.get("shape", ()))
        return shape == (-1, n)
    return False


def _over_positions(node: fx.Node) -> bool:
    dims = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else None)
    return dims in ((2, 3), [2, 3], (-2, -1), [-2, -1]) and not node.kwargs.get("keepdim", False)

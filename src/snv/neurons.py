"""What is valued: neuron i ⇄ (layer, channel) ⇄ its weights, bias and norm entries, and the columns that read it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, TypeAlias

import torch
from jaxtyping import Int64
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from snv.shapes import Indices

Forward: TypeAlias = Callable[[Tensor], Tensor]

MAPS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm, nn.GroupNorm, nn.LayerNorm)
HEAD_NAMES = {"head", "heads", "fc", "classifier"}


@dataclass(frozen=True, eq=False)
class Layer:
    """A module whose output channels are neurons ``start`` … ``start + n − 1``."""

    name: str
    module: nn.Module
    n: int
    start: int
    first_response: int  # where its mean responses start
    width: int = 1  # responses per neuron: an attention head has one per dimension
    axis: int = 1  # of the channels in the output
    batch_axis: int | None = 0  # of the examples in the output; None: the output does not grow with the batch
    uses: int = 1  # calls in one forward pass

    @property
    def neurons(self) -> slice:
        return slice(self.start, self.start + self.n)

    @property
    def responses(self) -> slice:
        return slice(self.first_response, self.first_response + self.n * self.width)


@dataclass(frozen=True, eq=False)
class Owned:
    """A tensor whose row r belongs to neuron ``owner[r]``: filter weights, bias, norm affine or norm statistics."""

    name: str
    module: nn.Module
    attribute: str
    role: str  # "weight", "bias", "norm" or "statistic"
    owner: Int64[Tensor, " rows"]

    @property
    def tensor(self) -> Tensor:
        """The tensor as it is now; moving a model to another device replaces its buffers."""
        tensor: Tensor = getattr(self.module, self.attribute)
        return tensor


@dataclass(frozen=True, eq=False)
class Part:
    """The entries of one tensor that belong to one neuron."""

    name: str
    role: str
    tensor: Tensor
    rows: Int64[Tensor, " rows"]


@dataclass(frozen=True, eq=False)
class Reader:
    """``weight[rows, columns]`` of a module is what it multiplies one neuron's output with."""

    name: str
    module: nn.Module
    rows: slice
    columns: slice


class Neurons:
    """All players of a network in the order in which their layers are first called; made by `find_neurons`."""

    def __init__(
        self,
        layers: Sequence[Layer],
        owned: Sequence[Owned],
        readers: dict[str, list[_Reading] | None],
        excluded: Sequence[str],
        unused: Sequence[str],
    ) -> None:
        self.layers = tuple(layers)
        self.owned = tuple(owned)
        self.excluded = tuple(excluded)  # layers that are used but not players: heads, and what the caller left out
        self.unused = tuple(unused)  # layers the forward pass never calls; not players
        self.n = sum(layer.n for layer in layers)
        self.n_responses = sum(layer.n * layer.width for layer in layers)
        self._readers = readers

    def __len__(self) -> int:
        return self.n

    @cached_property
    def names(self) -> list[str]:
        """One name per neuron, such as ``layer1.0.conv1[17]``."""
        return [f"{layer.name}[{c}]" for layer in self.layers for c in range(layer.n)]

    @cached_property
    def layer_index(self) -> Indices:
        """The position in ``layers`` of each neuron's layer."""
        return torch.repeat_interleave(torch.tensor([layer.n for layer in self.layers], dtype=torch.long))

    @property
    def batchable(self) -> bool:
        """Whether several coalitions can share one forward pass, each with its own rows."""
        return all(layer.batch_axis is not None for layer in self.layers)

    def layer(self, name: str) -> Layer:
        for layer in self.layers:
            if layer.name == name:
                return layer
        raise KeyError(f"no layer of players is called {name!r}; there are {[layer.name for layer in self.layers]}")

    def index(self, layer: str, channel: int) -> int:
        """The neuron of a layer's channel."""
        found = self.layer(layer)
        if not 0 <= channel < found.n:
            raise IndexError(f"{layer} has channels 0 to {found.n - 1}; got {channel}")
        return found.start + channel

    def locate(self, i: int) -> tuple[Layer, int]:
        """The layer and the channel of neuron ``i``."""
        if not 0 <= i < self.n:
            raise IndexError(f"neurons are numbered 0 to {self.n - 1}; got {i}")
        layer = self.layers[int(self.layer_index[i])]
        return layer, i - layer.start

    def by_layer(self, values: Tensor) -> Iterator[tuple[Layer, Tensor]]:
        """Each layer with its part of ``values`` (…, n)."""
        if values.shape[-1] != self.n:
            raise ValueError(f"one entry per neuron is needed, {self.n} in all; got a tensor of shape {values.shape}")
        for layer in self.layers:
            yield layer, values[..., layer.neurons]

    def parts_of(self, i: int) -> list[Part]:
        """Weight rows, bias, norm affine and statistics of neuron ``i``."""
        layer, _ = self.locate(i)
        return [
            Part(owned.name, owned.role, owned.tensor, (owned.owner == i).nonzero()[:, 0])
            for owned in self.owned
            if layer.start <= int(owned.owner[0]) < layer.start + layer.n
        ]

    def readers_of(self, i: int) -> list[Reader] | None:
        """The weight columns that multiply neuron ``i``'s output, or None where the data flow could not be followed."""
        layer, channel = self.locate(i)
        readings = self._readers[layer.name]
        return None if readings is None else [reading.of(channel) for reading in readings]

    @property
    def parameter_counts(self) -> Indices:
        """Trainable scalars per neuron: input weights, bias and norm affine."""
        counts = torch.zeros(self.n, dtype=torch.long)
        for owned in self.owned:
            if owned.role != "statistic":
                per_row = owned.tensor[0].numel()
                counts += per_row * torch.bincount(owned.owner, minlength=self.n)
        return counts


def find_neurons(
    model: nn.Module,
    example: Tensor,
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    forward: Forward | None = None,
) -> Neurons:
    """Every filter, hidden unit and attention head that ``model`` uses for ``example`` (a batch of inputs).

    Classifier heads are left out: the layers whose output is the model's output up to reshaping, joining and softmax,
    and layers called head, heads, fc or classifier whose output reaches it through nothing that has weights. In a
    transformer layer the second linear map writes to the residual stream and has no players. ``exclude`` and
    ``include`` are glob patterns over layer names that overrule this.

    A layer that is called more than once is one set of players, masked at every call, with means over all calls.
    """
    forward = forward or model
    trace = _Trace(model)
    with evaluating(model), torch.no_grad(), whole_attention():
        output = trace.run(forward, example)
        batch_axes = _batch_axes(trace, forward, example)
    silent = trace.heads(output) | _residual_writers(model)
    chosen = [name for name in trace.called if _is_player(name, name not in silent, include, exclude)]
    layers = _layers(trace, chosen, batch_axes)
    excluded = [name for name in trace.called if name not in chosen]
    unused = [name for name in trace.modules if name not in trace.called]
    return Neurons(layers, _owned(layers, trace), trace.readers, excluded, unused)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode inside the block; afterwards every module has its own mode back."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


@contextmanager
def whole_attention() -> Iterator[None]:
    """Transformer layers call their parts one by one; their fused fast path would bypass every hook."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def _is_player(name: str, by_rule: bool, include: Sequence[str], exclude: Sequence[str]) -> bool:
    if any(fnmatchcase(name, pattern) for pattern in exclude):
        return False
    return by_rule or any(fnmatchcase(name, pattern) for pattern in include)


def _residual_writers(model: nn.Module) -> set[str]:
    """The second linear maps of PyTorch's transformer layers."""
    kinds = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
    return {f"{name}.linear2".lstrip(".") for name, module in model.named_modules() if isinstance(module, kinds)}


def _layers(trace: _Trace, chosen: Sequence[str], batch_axes: dict[str, int | None]) -> list[Layer]:
    layers: list[Layer] = []
    start = first_response = 0
    for name in chosen:
        module = trace.modules[name]
        n, width = _size(module)
        axis = trace.axes[name]
        layers.append(Layer(name, module, n, start, first_response, width, axis, batch_axes[name], trace.called[name]))
        start, first_response = start + n, first_response + n * width
    return layers


def _size(module: nn.Module) -> tuple[int, int]:
    """Neurons of a layer, and responses per neuron."""
    match module:
        case nn.MultiheadAttention():
            return module.num_heads, module.head_dim
        case nn.Linear():
            return module.out_features, 1
        case nn.Conv1d() | nn.Conv2d() | nn.Conv3d():
            return module.out_channels, 1
    raise TypeError(f"neurons are found in convolutions, linear layers and attention; got {type(module).__name__}")


def _owned(layers: Sequence[Layer], trace: _Trace) -> list[Owned]:
    found: list[Owned] = []
    holders: dict[int, str] = {}
    for layer in layers:
        for owned in [*_own_rows(layer), *_norm_rows(layer, trace)]:
            if holders.setdefault(id(owned.tensor), layer.name) != layer.name:
                raise ValueError(
                    f"{owned.name} is also a parameter of {holders[id(owned.tensor)]}, so its rows would belong to two "
                    f"neurons. Exclude one of the two layers: find_neurons(..., exclude=[{layer.name!r}])."
                )
            found.append(owned)
    return found


def _own_rows(layer: Layer) -> Iterator[Owned]:
    owner = torch.arange(layer.start, layer.start + layer.n).repeat_interleave(layer.width)
    for path, parameter in layer.module.named_parameters():
        parent, _, attribute = path.rpartition(".")
        rows = 0 if parameter.ndim == 0 else len(parameter)
        if parent.startswith("out_proj") or rows == 0 or rows % len(owner):
            continue  # what reads the heads belongs to no head; scalars belong to the layer
        role = "bias" if attribute.endswith("bias") else "weight"
        holder = layer.module.get_submodule(parent)
        yield Owned(f"{layer.name}.{path}", holder, attribute, role, owner.repeat(rows // len(owner)))


def _norm_rows(layer: Layer, trace: _Trace) -> Iterator[Owned]:
    owner = torch.arange(layer.start, layer.start + layer.n)
    for name, norm in trace.norms_of(layer.name):
        for attribute, role in [
            ("weight", "norm"),
            ("bias", "norm"),
            ("running_mean", "statistic"),
            ("running_var", "statistic"),
        ]:
            if isinstance(getattr(norm, attribute, None), Tensor):
                yield Owned(f"{name}.{attribute}", norm, attribute, role, owner)


def _batch_axes(trace: _Trace, forward: Forward, example: Tensor) -> dict[str, int | None]:
    """The axis of each layer's output that doubles with the batch."""
    one, two = (trace.shapes(forward, example[:1].repeat(k, *[1] * (example.ndim - 1))) for k in (1, 2))
    axes: dict[str, int | None] = {}
    for name, shapes in one.items():
        grown = {
            tuple(i for i, (a, b) in enumerate(zip(*pair, strict=True)) if b == 2 * a != 0)
            for pair in zip(shapes, two[name], strict=True)
        }
        only = grown.pop() if len(grown) == 1 else ()
        axes[name] = only[0] if len(only) == 1 else None
    return axes


# How values flow from layer to layer -------------------------------------------------------------------------------

RESHAPING = {"flatten", "reshape", "view", "squeeze", "unsqueeze", "contiguous", "clone", "detach", "to", "float"}
JOINING = {"cat", "concat", "concatenate"}
NORMALISING = {"softmax", "log_softmax"}
CHANNELWISE = {
    *("relu", "relu6", "gelu", "silu", "mish", "leaky_relu", "elu", "selu", "celu", "prelu", "rrelu", "softplus"),
    *("hardswish", "hardtanh", "hardsigmoid", "sigmoid", "tanh", "softsign", "clamp", "abs", "square", "neg"),
    *("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout", "interpolate"),
    *("batch_norm", "group_norm", "layer_norm", "instance_norm", "mean", "sum", "amax", "pad"),
    *(f"{kind}_pool{d}d" for kind in ("max", "avg", "adaptive_avg", "adaptive_max", "lp") for d in (1, 2, 3)),
    *("add", "iadd", "radd", "sub", "isub", "rsub", "mul", "imul", "rmul", "div", "truediv", "itruediv"),
}


@dataclass(frozen=True)
class _Source:
    """Channel c of ``layer`` occupies ``span`` entries from ``start + c·span`` on."""

    layer: str
    start: int = 0
    span: int = 1


@dataclass(frozen=True)
class _Flow:
    """Which layers' channels a tensor holds along ``axis``."""

    axis: int
    sources: tuple[_Source, ...]
    raw: bool = True  # nothing but reshaping, joining and softmax since the layers
    alone: bool = True  # one layer and nothing else, entry by entry


@dataclass(frozen=True, eq=False)
class _Reading:
    """A module that reads a layer's channels, from entry ``start`` on with ``span`` entries per channel."""

    name: str
    module: nn.Module
    start: int
    span: int

    def of(self, channel: int) -> Reader:
        first = self.start + channel * self.span
        groups = getattr(self.module, "groups", 1)
        weight: Tensor = self.module.weight  # type: ignore[assignment]
        inputs, outputs = weight.shape[1], weight.shape[0] // groups
        group = first // inputs if groups > 1 else 0
        column = first - group * inputs
        return Reader(
            self.name, self.module, slice(group * outputs, (group + 1) * outputs), slice(column, column + self.span)
        )


@dataclass
class _Trace(TorchFunctionMode):
    """One forward pass, watched: which layers are called, what they read, which norms follow them."""

    model: nn.Module
    modules: dict[str, nn.Module] = field(init=False)
    called: dict[str, int] = field(default_factory=dict)
    axes: dict[str, int] = field(default_factory=dict)
    readers: dict[str, list[_Reading] | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__()
        attentions = [f"{name}." for name, m in self.model.named_modules() if isinstance(m, nn.MultiheadAttention)]
        kinds = (*MAPS, nn.MultiheadAttention)
        self.modules = {
            name: module
            for name, module in self.model.named_modules()
            if isinstance(module, kinds) and not name.startswith(tuple(attentions))
        }
        self._norms = {name: module for name, module in self.model.named_modules() if isinstance(module, NORMS)}
        self._norm_owner: dict[str, set[str | None]] = {}
        self._flows: dict[int, _Flow] = {}
        self._alive: list[Tensor] = []  # ids are only unique among living tensors
        self._inside = False  # a layer, whose own arithmetic is not followed

    def run(self, forward: Forward, example: Tensor) -> Tensor:
        with ExitStack() as undo:
            for name, module in self.modules.items():
                undo.callback(module.register_forward_pre_hook(self._enter).remove)
                undo.callback(module.register_forward_hook(self._on_layer(name, module)).remove)
            for name, module in self._norms.items():
                undo.callback(module.register_forward_pre_hook(self._on_norm(name, module)).remove)
            undo.enter_context(self)
            return forward(example)

    def shapes(self, forward: Forward, example: Tensor) -> dict[str, list[torch.Size]]:
        """Output shapes of each layer, call by call."""
        shapes: dict[str, list[torch.Size]] = {name: [] for name in self.called}
        with ExitStack() as undo:
            for name in self.called:
                seen = shapes[name]
                hook = self.modules[name].register_forward_hook(
                    lambda _module, _inputs, output, seen=seen: seen.append(_tensor(output).shape)
                )
                undo.callback(hook.remove)
            forward(example)
        return shapes

    def heads(self, output: Any) -> set[str]:
        """Layers whose output is the model's output, by data flow or by name and data flow."""
        flow = self._flows.get(id(output))
        if flow is None:
            return set()
        names = {source.layer for source in flow.sources}
        return names if flow.raw else {name for name in names if HEAD_NAMES & set(name.split("."))}

    def norms_of(self, layer: str) -> list[tuple[str, nn.Module]]:
        """Norm layers that see this layer's channels and nothing else."""
        return [(name, self._norms[name]) for name, owners in self._norm_owner.items() if owners == {layer}]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        inputs = [x for x in _tensors([args, kwargs]) if id(x) in self._flows]
        if inputs and isinstance(output, Tensor) and not self._inside:
            name = func.__name__.strip("_") if hasattr(func, "__name__") else ""
            flow = self._through(name, inputs, args, kwargs or {}, output)
            if flow is None:
                for x in inputs:
                    self._lose(self._flows[id(x)])
            self._remember(output, flow)
        return output

    def _through(self, name: str, inputs: list[Tensor], args: Any, kwargs: Any, output: Tensor) -> _Flow | None:
        flows = [self._flows[id(x)] for x in inputs]
        if name in JOINING:
            return self._joined(args[0], output)
        if name in RESHAPING:
            return _reshaped(flows[0], inputs[0], output)
        if name not in CHANNELWISE | NORMALISING or any(flow.axis != flows[0].axis for flow in flows):
            return None
        if output.shape[flows[0].axis : flows[0].axis + 1 or None] != _channels(inputs[0], flows[0].axis):
            return None
        if name in {"mean", "sum", "amax"} and flows[0].axis % inputs[0].ndim in _dims(inputs[0], args, kwargs):
            return None
        sources = tuple(dict.fromkeys(source for flow in flows for source in flow.sources))
        foreign = name in {"add", "iadd", "radd", "sub", "isub", "rsub", "mul", "imul", "rmul"} and any(
            isinstance(x, Tensor) and x.ndim > 0 and id(x) not in self._flows for x in args
        )
        raw = name in NORMALISING and flows[0].raw
        return _Flow(flows[0].axis, sources, raw, len(sources) == 1 and flows[0].alone and not foreign)

    def _joined(self, parts: Sequence[Tensor], output: Tensor) -> _Flow | None:
        known = [self._flows.get(id(part)) for part in parts]
        axis = next(flow.axis for flow in known if flow)
        lengths = [part.shape[axis] for part in parts]
        if sum(lengths) != output.shape[axis] or any(flow and flow.axis != axis for flow in known):
            return None
        sources = []
        for flow, offset in zip(known, torch.tensor([0, *lengths]).cumsum(0).tolist(), strict=False):
            sources += [_Source(s.layer, s.start + offset, s.span) for s in (flow.sources if flow else ())]
        return _Flow(axis, tuple(sources), all(flow and flow.raw for flow in known), alone=False)

    def _remember(self, tensor: Tensor, flow: _Flow | None) -> None:
        self._alive.append(tensor)
        if flow is None:
            self._flows.pop(id(tensor), None)
        else:
            self._flows[id(tensor)] = flow

    def _lose(self, flow: _Flow) -> None:
        for source in flow.sources:
            self.readers[source.layer] = None

    def _enter(self, _module: nn.Module, _inputs: Any) -> None:
        self._inside = True

    def _on_layer(self, name: str, module: nn.Module) -> Callable[..., None]:
        def watch(_module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
            self._inside = False
            self.called[name] = self.called.get(name, 0) + 1
            self.readers.setdefault(name, [])
            self._read(name, module, inputs)
            result = _tensor(output)
            self.axes[name] = 1 if result.ndim == 2 or not isinstance(module, nn.Linear | nn.MultiheadAttention) else -1
            if isinstance(module, nn.MultiheadAttention):
                self.readers[name] = [_Reading(f"{name}.out_proj", module.out_proj, 0, module.head_dim)]
                self._remember(result, None)
            else:
                self._remember(result, _Flow(self.axes[name], (_Source(name),)))

        return watch

    def _read(self, name: str, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        """Note that ``module`` reads the channels that its input holds."""
        flow = self._flows.get(id(inputs[0])) if inputs else None
        if flow is None:
            return
        axis = -1 if isinstance(module, nn.Linear) else 1
        if isinstance(module, nn.MultiheadAttention) or flow.axis % inputs[0].ndim != axis % inputs[0].ndim:
            self._lose(flow)
            return
        for source in flow.sources:
            known = self.readers[source.layer]
            reading = _Reading(name, module, source.start, source.span)
            if known is not None and all((r.name, r.start) != (name, source.start) for r in known):
                known.append(reading)

    def _on_norm(self, name: str, norm: nn.Module) -> Callable[..., None]:
        def watch(_module: nn.Module, inputs: tuple[Any, ...]) -> None:
            flow = self._flows.get(id(inputs[0]))
            owner = None
            if flow is not None and flow.alone and flow.sources[0].span == 1:
                owner = flow.sources[0].layer
                per_channel = (
                    not isinstance(norm, nn.LayerNorm) or norm.normalized_shape == inputs[0].shape[flow.axis :]
                )
                owner = owner if per_channel else None
            self._norm_owner.setdefault(name, set()).add(owner)

        return watch


def _reshaped(flow: _Flow, before: Tensor, after: Tensor) -> _Flow | None:
    """The same channels after (b, c, …) became (b, c·…), or after nothing of the kind happened."""
    axis = flow.axis % before.ndim
    if after.shape[: axis + 1] == before.shape[: axis + 1]:
        return _Flow(
            axis if flow.axis > 0 else -1 if after.ndim == axis + 1 else axis, flow.sources, flow.raw, flow.alone
        )
    if axis == 1 and after.ndim == 2 and after.shape[0] == before.shape[0]:
        span = before[0, 0].numel()
        sources = tuple(_Source(s.layer, s.start * span, s.span * span) for s in flow.sources)
        return _Flow(1, sources, flow.raw, flow.alone)
    return None


def _channels(tensor: Tensor, axis: int) -> torch.Size:
    return tensor.shape[axis : axis + 1 or None]


def _dims(tensor: Tensor, args: Any, kwargs: Any) -> set[int]:
    """The axes a reduction runs over."""
    dims = kwargs.get("dim", args[1] if len(args) > 1 else None)
    if dims is None:
        return set(range(tensor.ndim))
    return {d % tensor.ndim for d in ([dims] if isinstance(dims, int) else dims)}


def _tensor(output: Any) -> Tensor:
    """A layer's output; attention also returns its weights."""
    tensor: Tensor = output[0] if isinstance(output, tuple) else output
    return tensor


def _tensors(tree: Any) -> Iterator[Tensor]:
    match tree:
        case Tensor():
            yield tree
        case dict():
            for item in tree.values():
                yield from _tensors(item)
        case list() | tuple():
            for item in tree:
                yield from _tensors(item)

"""How values flow from layer to layer: one forward pass, watched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from snv.networks import FUNCTIONS, MAPS, NORMS

Forward: TypeAlias = Callable[[Tensor], Tensor]

HEAD_NAMES = {"head", "heads", "fc", "classifier"}

JOINING = {"cat", "concat", "concatenate"}
NORMALISING = {"softmax", "log_softmax"}
REDUCING = {"mean", "sum", "amax"}
COMBINING = {"add", "iadd", "radd", "sub", "isub", "rsub", "mul", "imul", "rmul"}
RESHAPING = {name for name, kind in FUNCTIONS.items() if kind.family == "shape"} | {
    *("squeeze", "unsqueeze", "contiguous", "clone", "detach", "to", "float"),
}
CHANNELWISE = {name for name, kind in FUNCTIONS.items() if kind.family in ("norm", "pointwise", "pool")} | {
    *("prelu", "rrelu", "clamp", "abs", "square", "neg", "dropout1d", "dropout3d", "interpolate", "pad"),
    *("div", "truediv", "itruediv", *REDUCING, *COMBINING),
}
"""Each channel is computed from itself alone, or from the same one of several tensors."""


@dataclass(frozen=True)
class Source:
    """Channels of ``layer``, each in ``span`` entries side by side."""

    layer: str
    span: int = 1


@dataclass(frozen=True)
class _Flow:
    """Which layers' channels a tensor holds along ``axis``."""

    axis: int
    sources: tuple[Source, ...]
    raw: bool = True  # nothing but reshaping, joining and softmax since the layers
    complete: bool = True  # nothing but these layers, entry by entry


@dataclass
class Trace(TorchFunctionMode):
    """One forward pass, watched: which layers are called, and what norm layers read of them."""

    model: nn.Module
    modules: dict[str, nn.Module] = field(init=False)
    called: list[str] = field(default_factory=list)
    axes: dict[str, int] = field(default_factory=dict)

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
        self._norm_inputs: dict[str, set[tuple[Source, ...]]] = {}  # call by call; () if they could not be followed
        self._inputs: dict[str, set[tuple[Source, ...] | None]] = {}  # of layers, call by call, as `reads` gives them
        self._flows: dict[int, _Flow] = {}
        self._derived: set[int] = set()  # tensors that come from layers, whether or not they could be followed
        self._alive: list[Tensor] = []  # ids are only unique among living tensors
        self._inside = False  # a layer, whose own arithmetic is not followed

    def run(self, forward: Forward, example: Tensor) -> Tensor:
        with ExitStack() as undo:
            for name, module in self.modules.items():
                undo.callback(module.register_forward_pre_hook(self._on_enter(name)).remove)
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
                own = shapes[name]
                hook = self.modules[name].register_forward_hook(
                    lambda _module, _inputs, output, own=own: own.append(_tensor(output).shape)
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

    def norms(self) -> Iterator[tuple[str, nn.Module, tuple[Source, ...]]]:
        """Norm layers that see channels of some layers and nothing else."""
        for name, inputs in self._norm_inputs.items():
            if len(inputs) == 1 and (sources := next(iter(inputs))):
                yield name, self._norms[name], sources

    def reads(self, name: str) -> tuple[Source, ...] | None:
        """Whose channels a layer reads, entry by entry: () of the image, None if they could not be followed."""
        inputs = self._inputs[name]
        return next(iter(inputs)) if len(inputs) == 1 else None

    def behind(self, tensor: Any) -> tuple[Source, ...] | None:
        """Whose channels a tensor holds, as `reads` gives them."""
        flow = self._flows.get(id(tensor))
        if flow is None:
            return None if id(tensor) in self._derived else ()
        return flow.sources if flow.complete else None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        derived = [x for x in _tensors([args, kwargs]) if id(x) in self._derived]
        if derived and isinstance(output, Tensor) and not self._inside:
            name = func.__name__.strip("_") if hasattr(func, "__name__") else ""
            inputs = [x for x in derived if id(x) in self._flows]
            self._remember(output, self._through(name, inputs, args, kwargs or {}, output) if inputs else None)
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
        if name in REDUCING and flows[0].axis % inputs[0].ndim in _dims(inputs[0], args, kwargs):
            return None
        sources = tuple(dict.fromkeys(source for flow in flows for source in flow.sources))
        foreign = name in COMBINING and any(
            isinstance(x, Tensor) and x.ndim > 0 and id(x) not in self._flows for x in args
        )
        raw = name in NORMALISING and flows[0].raw
        return _Flow(flows[0].axis, sources, raw, all(flow.complete for flow in flows) and not foreign)

    def _joined(self, parts: Sequence[Tensor], output: Tensor) -> _Flow | None:
        flows = [self._flows.get(id(part)) for part in parts]
        axis = next(flow.axis for flow in flows if flow)
        lengths = [part.shape[axis] for part in parts]
        if sum(lengths) != output.shape[axis] or any(flow and flow.axis != axis for flow in flows):
            return None
        sources = dict.fromkeys(source for flow in flows if flow for source in flow.sources)
        return _Flow(axis, tuple(sources), all(flow and flow.raw for flow in flows), complete=False)

    def _remember(self, tensor: Tensor, flow: _Flow | None) -> None:
        self._alive.append(tensor)
        self._derived.add(id(tensor))
        if flow is None:
            self._flows.pop(id(tensor), None)
        else:
            self._flows[id(tensor)] = flow

    def _on_enter(self, name: str) -> Callable[..., None]:
        def watch(_module: nn.Module, inputs: tuple[Any, ...]) -> None:
            self._inside = True
            self._inputs.setdefault(name, set()).add(self.behind(inputs[0]) if inputs else None)

        return watch

    def _on_layer(self, name: str, module: nn.Module) -> Callable[..., None]:
        def watch(_module: nn.Module, _inputs: Any, output: Any) -> None:
            self._inside = False
            if name not in self.called:
                self.called.append(name)
            result = _tensor(output)
            self.axes[name] = 1 if result.ndim == 2 or not isinstance(module, nn.Linear | nn.MultiheadAttention) else -1
            mixes = isinstance(module, nn.MultiheadAttention)  # its heads are gone in what it returns
            self._remember(result, None if mixes else _Flow(self.axes[name], (Source(name),)))

        return watch

    def _on_norm(self, name: str, norm: nn.Module) -> Callable[..., None]:
        def watch(_module: nn.Module, inputs: tuple[Any, ...]) -> None:
            flow = self._flows.get(id(inputs[0]))
            followed = flow is not None and flow.complete
            if flow is not None and isinstance(norm, nn.LayerNorm):  # it may run over positions only
                followed = followed and norm.normalized_shape == inputs[0].shape[flow.axis :]
            self._norm_inputs.setdefault(name, set()).add(flow.sources if flow is not None and followed else ())

        return watch


def _reshaped(flow: _Flow, before: Tensor, after: Tensor) -> _Flow | None:
    """The same channels after (b, c, …) became (b, c·…), or after nothing of the kind happened."""
    axis = flow.axis % before.ndim
    if after.shape[: axis + 1] == before.shape[: axis + 1]:
        return _Flow(
            axis if flow.axis > 0 else -1 if after.ndim == axis + 1 else axis, flow.sources, flow.raw, flow.complete
        )
    if axis == 1 and after.ndim == 2 and after.shape[0] == before.shape[0]:
        span = before[0, 0].numel()
        sources = tuple(Source(s.layer, s.span * span) for s in flow.sources)
        return _Flow(1, sources, flow.raw, flow.complete)
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

"""What is valued: neuron i ⇄ (layer, channel) ⇄ its weights, bias and norm entries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property

import torch
from jaxtyping import Int64
from torch import Tensor, nn

from snv.networks import NORM_PARTS
from snv.neurons.trace import Forward, Source, Trace
from snv.shapes import Entries, Indices, Mask


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
class NormRows:
    """A norm layer with one row per channel, and the neurons that each row comes from."""

    name: str
    module: nn.Module
    sources: tuple[Int64[Tensor, " rows"], ...]  # several after a sum; −1: a channel of a layer without players

    def silent(self, mask: Mask) -> Entries:
        """The rows that no neuron of ``mask`` reaches."""
        always = torch.ones(1, dtype=torch.bool)
        return ~torch.stack([torch.cat([mask, always])[source] for source in self.sources]).any(0)


@dataclass(frozen=True, eq=False)
class Reader:
    """A layer, or whatever reads the output of the network, and the neurons that each entry it reads comes from."""

    name: str  # empty for the output
    sources: tuple[Int64[Tensor, " columns"], ...] | None  # as for `NormRows`; () reads the image, None is not known


class Neurons:
    """All players of a network in the order in which their layers are first called; made by `find_neurons`."""

    def __init__(
        self,
        layers: Sequence[Layer],
        owned: Sequence[Owned],
        norms: Sequence[NormRows],
        readers: Sequence[Reader],
        excluded: Sequence[str],
        unused: Sequence[str],
    ) -> None:
        self.layers = tuple(layers)
        self.owned = tuple(owned)
        self.norms = tuple(norms)
        self.readers = tuple(readers)
        self.excluded = tuple(excluded)  # layers that are used but not players: heads, and what the caller left out
        self.unused = tuple(unused)  # layers the forward pass never calls; not players
        self.n = sum(layer.n for layer in layers)
        self.n_responses = sum(layer.n * layer.width for layer in layers)

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

    def by_layer(self, values: Tensor) -> Iterator[tuple[Layer, Tensor]]:
        """Each layer with its part of ``values`` (…, n)."""
        if values.shape[-1] != self.n:
            raise ValueError(f"one entry per neuron is needed, {self.n} in all; got a tensor of shape {values.shape}")
        for layer in self.layers:
            yield layer, values[..., layer.neurons]

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
    trace = Trace(model)
    with evaluating(model), torch.no_grad(), whole_attention():
        output = trace.run(forward, example)
        batch_axes = _batch_axes(trace, forward, example)
    without_players = trace.heads(output) | _residual_writers(model)
    players = [name for name in trace.called if _is_player(name, name not in without_players, include, exclude)]
    layers = _layers(trace, players, batch_axes)
    excluded = [name for name in trace.called if name not in players]
    unused = [name for name in trace.modules if name not in trace.called]
    norms = _norms(layers, trace)
    return Neurons(layers, _owned(layers, norms), norms, _readers(layers, trace, output), excluded, unused)


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
    setting = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(setting)


def _is_player(name: str, by_rule: bool, include: Sequence[str], exclude: Sequence[str]) -> bool:
    if any(fnmatchcase(name, pattern) for pattern in exclude):
        return False
    return by_rule or any(fnmatchcase(name, pattern) for pattern in include)


def _residual_writers(model: nn.Module) -> set[str]:
    """The second linear maps of PyTorch's transformer layers."""
    kinds = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
    return {f"{name}.linear2".lstrip(".") for name, module in model.named_modules() if isinstance(module, kinds)}


def _layers(trace: Trace, players: Sequence[str], batch_axes: dict[str, int | None]) -> list[Layer]:
    layers: list[Layer] = []
    start = first_response = 0
    for name in players:
        module = trace.modules[name]
        n, width = _size(module)
        axis = trace.axes[name]
        layers.append(Layer(name, module, n, start, first_response, width, axis, batch_axes[name]))
        start, first_response = start + n, first_response + n * width
    return layers


def _size(module: nn.Module) -> tuple[int, int]:
    """Neurons of a layer, and responses per neuron."""
    if isinstance(module, nn.MultiheadAttention):
        return module.num_heads, module.head_dim
    return len(module.weight), 1  # type: ignore[arg-type]


def _norms(layers: Sequence[Layer], trace: Trace) -> list[NormRows]:
    starts = {layer.name: layer.start for layer in layers}
    norms = []
    for name, norm, sources in trace.norms():
        rows = [_rows(source, starts.get(source.layer), trace) for source in sources]
        if len({len(row) for row in rows}) == 1:
            norms.append(NormRows(name, norm, tuple(rows)))
    return norms


def _readers(layers: Sequence[Layer], trace: Trace, output: Tensor) -> list[Reader]:
    starts = {layer.name: layer.start for layer in layers}
    read = {layer.name: trace.reads(layer.name) for layer in layers} | {"": trace.behind(output)}

    def rows(found: Sequence[Source]) -> tuple[Tensor, ...]:
        return tuple(_rows(source, starts.get(source.layer), trace) for source in found)

    return [Reader(name, None if found is None else rows(found)) for name, found in read.items()]


def _rows(source: Source, start: int | None, trace: Trace) -> Int64[Tensor, " rows"]:
    """The neuron behind each entry of a signal."""
    channels = torch.arange(_size(trace.modules[source.layer])[0]).repeat_interleave(source.span)
    return torch.full_like(channels, -1) if start is None else start + channels


def _owned(layers: Sequence[Layer], norms: Sequence[NormRows]) -> list[Owned]:
    parts: list[Owned] = []
    holders: dict[int, str] = {}
    for layer in layers:
        for owned in [*_own_rows(layer), *_norm_rows(layer, norms)]:
            if holders.setdefault(id(owned.tensor), layer.name) != layer.name:
                raise ValueError(
                    f"{owned.name} is also a parameter of {holders[id(owned.tensor)]}, so its rows would belong to two "
                    f"neurons. Exclude one of the two layers: find_neurons(..., exclude=[{layer.name!r}])."
                )
            parts.append(owned)
    return parts


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


def _norm_rows(layer: Layer, norms: Sequence[NormRows]) -> Iterator[Owned]:
    """What norm layers have for this layer's channels, if they read no other layer."""
    owner = torch.arange(layer.start, layer.start + layer.n)
    for norm in norms:
        if len(norm.sources) == 1 and torch.equal(norm.sources[0], owner):
            for attribute, role in NORM_PARTS.items():
                if isinstance(getattr(norm.module, attribute, None), Tensor):
                    yield Owned(f"{norm.name}.{attribute}", norm.module, attribute, role, owner)


def _batch_axes(trace: Trace, forward: Forward, example: Tensor) -> dict[str, int | None]:
    """The axis of each layer's output that doubles with the batch."""
    one, two = (trace.shapes(forward, example[:1].repeat(k, *[1] * (example.ndim - 1))) for k in (1, 2))
    axes: dict[str, int | None] = {}
    for name, shapes in one.items():
        growing = {
            tuple(i for i, (a, b) in enumerate(zip(*pair, strict=True)) if b == 2 * a != 0)
            for pair in zip(shapes, two[name], strict=True)
        }
        axis = growing.pop() if len(growing) == 1 else ()
        axes[name] = axis[0] if len(axis) == 1 else None
    return axes

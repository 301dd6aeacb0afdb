"""The kinds of layers that the library knows: what each one is, and how it looks with only some of its channels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from snv.networks.strided import mend
from snv.shapes import Indices

Family: TypeAlias = Literal["map", "norm", "pointwise", "pool", "shape"]
M = TypeVar("M", nn.Conv2d, nn.Linear)
Cut: TypeAlias = Callable[[Any, Indices, Indices], nn.Module]


def places(live: Indices, n: int) -> Indices:
    """Where each of ``n`` channels stands among the live ones; one past the end if it is not there."""
    index = torch.full((n,), len(live))
    index[live] = torch.arange(len(live))
    return index


def rearranged(x: Tensor, index: Tensor) -> Tensor:
    """The channels of a signal by `places`; those that are not there are zeros."""
    return F.pad(x, (*[0, 0] * (x.ndim - 2), 0, 1)).index_select(1, index)


class JointNorm(nn.Module):
    """GroupNorm or LayerNorm with some of its channels; its statistics still count the zeros of all others."""

    def __init__(self, norm: nn.GroupNorm | nn.LayerNorm, groups: int, n: int, live: Indices) -> None:
        """``n`` channels in so many groups, some of them live."""
        super().__init__()
        self.groups, self.eps = groups, norm.eps
        self.places: Tensor
        self.live: Tensor
        self.register_buffer("places", places(live, n))
        self.register_buffer("live", live)
        self.weight: nn.Parameter | None
        self.bias: nn.Parameter | None
        for name in ("weight", "bias"):
            part = getattr(norm, name)
            self.register_parameter(name, None if part is None else nn.Parameter(part.detach()[live]))

    def forward(self, x: Tensor) -> Tensor:
        out = F.group_norm(rearranged(x, self.places), self.groups, eps=self.eps).index_select(1, self.live)
        for operation, part in ((torch.mul, self.weight), (torch.add, self.bias)):
            if part is not None:
                out = operation(out, part.view(len(part), *(part.shape[1:] or [1] * (x.ndim - 2))))
        return out


def cut_convolution(layer: nn.Conv2d, rows: Indices, columns: Indices) -> nn.Conv2d:
    small = nn.Conv2d(
        len(columns),
        len(rows),
        layer.kernel_size,  # type: ignore[arg-type]
        layer.stride,  # type: ignore[arg-type]
        layer.padding,  # type: ignore[arg-type]
        layer.dilation,  # type: ignore[arg-type]
        bias=layer.bias is not None,
        padding_mode=layer.padding_mode,
        device="meta",
    )
    mend(small)
    return _with_weights(small, layer, rows, columns)


def cut_linear(layer: nn.Linear, rows: Indices, columns: Indices) -> nn.Linear:
    small = nn.Linear(len(columns), len(rows), bias=layer.bias is not None, device="meta")
    return _with_weights(small, layer, rows, columns)


def _with_weights(small: M, layer: Any, rows: Indices, columns: Indices) -> M:
    weight = layer.weight.detach()[rows][:, columns]
    layout = torch.channels_last if weight.ndim == 4 else torch.contiguous_format
    small.weight = nn.Parameter(weight.contiguous(memory_format=layout))
    if layer.bias is not None:
        small.bias = nn.Parameter(layer.bias.detach()[rows])
    return small


def cut_channels(norm: Any, live: Indices, _: Indices) -> nn.Module:
    """A norm layer that measures every channel by itself."""
    small: nn.Module = type(norm)(len(live), norm.eps, norm.momentum, norm.affine, norm.track_running_stats)
    for name in NORM_PARTS:
        part = getattr(norm, name)
        mine = None if part is None else part.detach()[live]
        setattr(small, name, nn.Parameter(mine) if mine is not None and isinstance(part, nn.Parameter) else mine)
    if isinstance(small, nn.SyncBatchNorm):
        small.process_group = norm.process_group
    return small


def cut_group_norm(norm: nn.GroupNorm, live: Indices, _: Indices) -> nn.Module:
    return JointNorm(norm, norm.num_groups, norm.num_channels, live)


def cut_layer_norm(norm: nn.LayerNorm, live: Indices, _: Indices) -> nn.Module:
    return JointNorm(norm, 1, norm.normalized_shape[0], live)


NORM_PARTS: dict[str, Literal["norm", "statistic"]] = {
    "weight": "norm",
    "bias": "norm",
    "running_mean": "statistic",
    "running_var": "statistic",
}
"""What a norm layer may have for every channel: learned, or measured."""


@dataclass(frozen=True)
class Kind:
    """What a layer does with channels.

    A map mixes them, a norm has numbers for each of them, pointwise layers and pools treat each by itself and all
    alike, and a shape arranges them anew.
    """

    family: Family
    functions: tuple[str, ...] = ()  # functions and methods that do the same, by name
    cut: Cut | None = None  # a map with some rows and columns, or a norm with some channels; None: neither can be cut
    joint: bool = False  # a norm with statistics over several channels


_BATCH_NORM, _INSTANCE_NORM = ("batch_norm",), ("instance_norm",)
_POOLS = {"Max": "max", "Avg": "avg", "LP": "lp", "AdaptiveMax": "adaptive_max", "AdaptiveAvg": "adaptive_avg"}

KINDS: dict[type[nn.Module], Kind] = {
    nn.Linear: Kind("map", ("linear",), cut_linear),
    nn.Conv1d: Kind("map", ("conv1d",)),
    nn.Conv2d: Kind("map", ("conv2d",), cut_convolution),
    nn.Conv3d: Kind("map", ("conv3d",)),
    nn.BatchNorm1d: Kind("norm", _BATCH_NORM, cut_channels),
    nn.BatchNorm2d: Kind("norm", _BATCH_NORM, cut_channels),
    nn.BatchNorm3d: Kind("norm", _BATCH_NORM),
    nn.SyncBatchNorm: Kind("norm", _BATCH_NORM, cut_channels),
    nn.InstanceNorm1d: Kind("norm", _INSTANCE_NORM),  # takes a batch of features for one image
    nn.InstanceNorm2d: Kind("norm", _INSTANCE_NORM, cut_channels),
    nn.InstanceNorm3d: Kind("norm", _INSTANCE_NORM),
    nn.GroupNorm: Kind("norm", ("group_norm",), cut_group_norm, joint=True),
    nn.LayerNorm: Kind("norm", ("layer_norm",), cut_layer_norm, joint=True),
    nn.Identity: Kind("pointwise"),
    nn.ReLU: Kind("pointwise", ("relu", "relu_")),
    nn.ReLU6: Kind("pointwise", ("relu6",)),
    nn.LeakyReLU: Kind("pointwise", ("leaky_relu",)),
    nn.ELU: Kind("pointwise", ("elu",)),
    nn.SELU: Kind("pointwise", ("selu",)),
    nn.CELU: Kind("pointwise", ("celu",)),
    nn.GELU: Kind("pointwise", ("gelu",)),
    nn.SiLU: Kind("pointwise", ("silu",)),
    nn.Mish: Kind("pointwise", ("mish",)),
    nn.Softplus: Kind("pointwise", ("softplus",)),
    nn.Softsign: Kind("pointwise", ("softsign",)),
    nn.Tanh: Kind("pointwise", ("tanh",)),
    nn.Sigmoid: Kind("pointwise", ("sigmoid",)),
    nn.Hardtanh: Kind("pointwise", ("hardtanh",)),
    nn.Hardswish: Kind("pointwise", ("hardswish",)),
    nn.Hardsigmoid: Kind("pointwise", ("hardsigmoid",)),
    nn.Dropout: Kind("pointwise", ("dropout",)),
    nn.Dropout2d: Kind("pointwise", ("dropout2d",)),
    nn.AlphaDropout: Kind("pointwise", ("alpha_dropout",)),
    nn.FeatureAlphaDropout: Kind("pointwise", ("feature_alpha_dropout",)),
    **{
        getattr(nn, f"{name}Pool{d}d"): Kind("pool", (f"{function}_pool{d}d",))
        for name, function in _POOLS.items()
        for d in (1, 2, 3)
    },
    nn.Flatten: Kind("shape", ("flatten", "view", "reshape")),
}
"""Every kind of layer that can be followed; what is not here is refused where it would have to be."""

FUNCTIONS: dict[str, Kind] = {name: kind for kind in KINDS.values() for name in kind.functions}
DROPOUTS: dict[str, type[Any]] = {
    name: module
    for module, kind in KINDS.items()
    if issubclass(module, nn.modules.dropout._DropoutNd)
    for name in kind.functions
}
"""Functions that are told whether the network trains, and the layers that know it."""


def _modules(family: Family) -> tuple[Any, ...]:
    return tuple(module for module, kind in KINDS.items() if kind.family == family)


MAPS: tuple[type[nn.Linear | nn.modules.conv._ConvNd], ...] = _modules("map")
NORMS: tuple[type[nn.modules.batchnorm._NormBase | nn.GroupNorm | nn.LayerNorm], ...] = _modules("norm")


def kind_of(module: nn.Module) -> Kind | None:
    """The kind of a module, or of what it derives from."""
    return next((KINDS[base] for base in type(module).__mro__ if base in KINDS), None)

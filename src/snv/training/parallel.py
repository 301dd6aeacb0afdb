"""One step of several processes: each takes a part of the batch, and all make the step that one would make of it.

The loss is a mean over the rows of the batch, so its gradient is the sum of the parts' gradients, each weighted by its
rows. Norm layers measure the rows of all parts. Then every process has the same gradient, takes the same step and holds
the same weights, to the last bit: whatever a method freezes stays frozen on all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from snv.machine import Part, ranks


class _Step:
    """The part of its batch that this process has, in a step under way."""

    part: Part | None = None


@contextmanager
def divided(part: Part | None) -> Iterator[None]:
    """A step on a part of its batch; None: on all of it."""
    if part is None:
        yield
        return
    before, _Step.part = _Step.part, part
    try:
        with _OverAllRows():
            yield
    finally:
        _Step.part = before


def differentiate(loss: Tensor | Iterable[Tensor], optimizer: torch.optim.Optimizer) -> Tensor:
    """Put the gradients of the whole batch's loss where the optimiser expects them; returns that loss.

    It may come as the terms of a sum, of which one graph is alive at a time.
    """
    part, values = _Step.part, []
    for term in [loss] if isinstance(loss, Tensor) else loss:
        own = term if part is None else term * part.weight
        own.backward()
        values.append(own.detach())
    total = values[0] if len(values) == 1 else torch.stack(values).sum()
    if part is None:
        return total
    parameters: list[nn.Parameter] = [p for group in optimizer.param_groups for p in group["params"]]
    gradients = [p.grad for p in parameters if p.grad is not None]
    return _added_up([*gradients, total.to(gradients[0].dtype)])[-1]


@torch.no_grad()
def _added_up(parts: list[Tensor]) -> list[Tensor]:
    """Every tensor, in its place, added up over all processes, in one exchange."""
    flat = torch.cat([x.reshape(-1) for x in parts])
    ranks.add_up(flat)
    for x, total in zip(parts, flat.split([x.numel() for x in parts]), strict=True):
        x.copy_(total.view(x.shape))
    return parts


def whole(x: Tensor, part: Part | None) -> Tensor:
    """The rows of all processes, where this one has some: for what a method does with a batch besides its loss."""
    if part is None:
        return x
    rows = x.new_zeros(part.of, *x.shape[1:])
    rows[part.rows] = x
    ranks.add_up(rows)
    return rows


# ---- norm layers


class _OverAllRows(TorchFunctionMode):
    """Within it, BatchNorm that measures the batch measures the rows of all processes."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        call = over_all_rows if func is F.batch_norm else func
        return call(*args, **(kwargs or {}))


def over_all_rows(
    input: Tensor,  # noqa: A002 - the names are PyTorch's
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """`torch.nn.functional.batch_norm` of the rows of all processes together."""
    if not training:
        return F.batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    n, mean, var = moments(input)
    with torch.no_grad():
        for running, now in ((running_mean, mean), (running_var, var * n / (n - 1))):
            if running is not None:
                running.lerp_(now.to(running), momentum)
    out: Tensor = _Norm.apply(input, weight, bias, n, mean, var, eps)  # type: ignore[no-untyped-call]
    return out


@torch.no_grad()
def moments(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Count, mean and variance of every channel over the rows of all processes: counts and sums added in float64."""
    exact = x if x.dtype == torch.float64 else x.float()
    mean, var = torch.batch_norm_update_stats(exact, None, None, 0.0)  # five times as fast as var_mean
    n, mean, var = x.numel() // x.shape[1], mean.double(), var.double()
    sums = torch.cat([mean.new_full((1,), n), n * mean, n * (var + mean.square())])
    ranks.add_up(sums)
    mean, square = (sums[1:] / sums[0]).chunk(2)
    return sums[0], mean, (square - mean.square()).clamp(min=0)


class _Norm(torch.autograd.Function):
    """y = (x − mean)/√(var + ε)·weight + bias, where mean and var depend on the rows of all processes.

    With x̂ what is normalised and g = ∂L/∂y: ∂L/∂x = weight/√(var + ε)·(g − Σg/n − x̂·Σ(g x̂)/n), sums over all rows.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        n: Tensor,
        mean: Tensor,
        var: Tensor,
        eps: float,
    ) -> Tensor:
        kind = torch.float64 if x.dtype == torch.float64 else torch.float32
        mean, var = mean.to(kind), var.to(kind)
        ctx.save_for_backward(x, weight, n, mean, var)
        ctx.eps = eps
        return F.batch_norm(x, mean, var, weight, bias, False, 0.0, eps)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, n, mean, var = ctx.saved_tensors
        of_fixed = torch.ops.aten.native_batch_norm_backward  # as if mean and var were constants; gives both sums too
        of_x, of_weight, of_bias = of_fixed(
            gradients[0], x, weight, mean, var, None, None, False, ctx.eps, [True, True, True]
        )
        sums = torch.stack([of_weight, of_bias]).double()
        ranks.add_up(sums)
        deviation = (var.double() + ctx.eps).rsqrt()
        scale = deviation if weight is None else deviation * weight.double()
        slope = -scale * deviation * sums[0] / n
        offset = -scale * sums[1] / n - slope * mean
        shape = (1, -1, *[1] * (x.ndim - 2))
        slope, offset = (part.to(mean).view(shape) for part in (slope, offset))
        of_x = of_x.to(mean).addcmul_(x.to(mean), slope).add_(offset).to(x)
        return of_x, *((None, None) if weight is None else (of_weight, of_bias)), None, None, None, None

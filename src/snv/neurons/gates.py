"""Networks in which only some neurons carry information: the others are held at their mean response."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from jaxtyping import Float, Float64
from torch import Tensor, nn

from snv.machine import ranks
from snv.neurons.find import Layer, Neurons, evaluating, whole_attention
from snv.neurons.trace import Forward
from snv.shapes import Gates, Mask

Means: TypeAlias = Float[Tensor, " r"]
"""μ, one number per neuron; an attention head has one per dimension."""


def mean_responses_to(
    model: nn.Module, neurons: Neurons, batches: Iterable[Tensor], forward: Forward | None = None
) -> Means:
    """μ_i, the mean over samples and positions of each layer's output before normalisation, in evaluation mode.

    Batches come one after the other, so that only one of them need be in memory.
    """
    weights = next(model.parameters())
    means = mean_of_responses(model, neurons, batches, lambda output: output, forward)
    return means.to(device=weights.device, dtype=torch.promote_types(weights.dtype, torch.float32))


def mean_of_responses(
    model: nn.Module,
    neurons: Neurons,
    batches: Iterable[Tensor],
    of: Callable[[Tensor], Tensor],
    forward: Forward | None = None,
) -> Float64[Tensor, " r"]:
    """The mean of a function of the responses, over all samples and positions alike: of all processes' batches."""
    total = torch.zeros(neurons.n_responses, dtype=torch.float64)
    count = torch.zeros(neurons.n_responses, dtype=torch.float64)

    def add(layer: Layer, output: Tensor) -> Tensor:
        axis = layer.axis % output.ndim
        others = [d for d in range(output.ndim) if d != axis]
        total[layer.responses] += of(output).sum(others, dtype=torch.float64).cpu()
        count[layer.responses] += output.numel() // output.shape[axis]
        return output

    with ExitStack() as undo:
        undo.enter_context(evaluating(model))
        undo.enter_context(torch.inference_mode())
        undo.enter_context(whole_attention())
        for layer in neurons.layers:
            undo.enter_context(_rewritten(layer, add))
        for batch in batches:
            (forward or model)(batch)
    for part in (total, count):
        ranks.add_up(part)
    return total / count


@contextmanager
def ablated(neurons: Neurons, coalition: Mask, means: Means) -> Iterator[None]:
    """Hold every neuron outside ``coalition`` at its mean response while the block runs."""
    with gated(neurons, [part for _, part in neurons.by_layer(coalition[None].to(means))], means):
        yield


@contextmanager
def gated(neurons: Neurons, gates: Sequence[Tensor], means: Means) -> Iterator[None]:
    """Let neuron i answer μ_i + m_i (a_i − μ_i) while the block runs; ``gates`` holds m layer by layer, (p, n) each.

    With p > 1 the batch consists of p equal parts, one per row of the gates. Gates of one cost nothing unless they
    need a gradient.
    """
    with ExitStack() as undo:
        undo.enter_context(whole_attention())
        for layer, gate in zip(neurons.layers, gates, strict=True):
            if gate.requires_grad or not bool((gate == 1).all()):
                undo.enter_context(_rewritten(layer, _gate_with(gate, means[layer.responses])))
        yield


def gate_output(layer: Layer, output: Tensor, gates: Gates, means: Means) -> Tensor:
    """μ + m(a − μ), written a·m + (1 − m)·μ; the batch consists of one equal part per row of ``gates``."""
    gates, means = gates.to(output), means.to(output)
    gates = gates.repeat_interleave(layer.width, dim=1) if layer.width > 1 else gates
    axis = layer.axis % output.ndim
    if len(gates) == 1:
        shape = [1] * output.ndim
        shape[axis] = -1
        return torch.addcmul(((1 - gates[0]) * means).view(shape), output, gates[0].view(shape))
    if layer.batch_axis is None:
        raise ValueError(f"{layer.name} answers the same for every example, so its gates cannot differ within a batch")
    parts = torch.unflatten(output, layer.batch_axis, (len(gates), -1))
    shape = [1] * parts.ndim
    shape[layer.batch_axis], shape[axis + (axis > layer.batch_axis)] = gates.shape
    shift = ((1 - gates) * means).view(shape)
    return torch.addcmul(shift, parts, gates.view(shape)).flatten(layer.batch_axis, layer.batch_axis + 1)


def _gate_with(gates: Tensor, means: Tensor) -> Callable[[Layer, Tensor], Tensor]:
    return lambda layer, output: gate_output(layer, output, gates, means)


@contextmanager
def _rewritten(layer: Layer, rewrite: Callable[[Layer, Tensor], Tensor]) -> Iterator[None]:
    """Pass the neurons' responses of one layer through ``rewrite`` at every call."""
    if isinstance(layer.module, nn.MultiheadAttention):
        with _rewritten_heads(layer, layer.module, rewrite):
            yield
        return

    def hook(_module: nn.Module, _inputs: Any, output: Tensor) -> Tensor:
        return rewrite(layer, output)

    handle = layer.module.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def _rewritten_heads(
    layer: Layer, attention: nn.MultiheadAttention, rewrite: Callable[[Layer, Tensor], Tensor]
) -> Iterator[None]:
    """The same for attention heads, which answer before the output projection.

    During the call the projection is the identity, so that the module returns its heads side by side.
    """
    projection = attention.out_proj
    weight = projection.weight
    identity = nn.Linear(len(weight), len(weight), device="meta").to_empty(device=weight.device).to(weight.dtype)
    identity.requires_grad_(False)
    nn.init.eye_(identity.weight)
    nn.init.zeros_(identity.bias)

    def open_up(_module: nn.Module, _inputs: Any) -> None:
        attention._modules["out_proj"] = identity

    def project(_module: nn.Module, _inputs: Any, output: tuple[Tensor, Any]) -> tuple[Tensor, Any]:
        attention._modules["out_proj"] = projection
        return F.linear(rewrite(layer, output[0]), projection.weight, projection.bias), output[1]

    handles = [attention.register_forward_pre_hook(open_up), attention.register_forward_hook(project)]
    try:
        yield
    finally:
        attention._modules["out_proj"] = projection
        for handle in handles:
            handle.remove()

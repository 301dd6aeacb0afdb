"""The plain way to evaluate coalitions: whole forward passes, with the gates set by hooks."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import torch
from jaxtyping import Float
from torch import Tensor, nn

from snv.neurons import Forward, Means, Neurons, gated
from snv.shapes import Gates
from snv.valuation.prefix import Plan


class Hooked:
    """The plain engine: the whole network on p copies of the images, each with its own gates."""

    def __init__(self, forward: Forward, neurons: Neurons) -> None:
        self.forward, self.neurons = forward, neurons
        self.bytes = 0

    def profile(self, model: nn.Module, example: Tensor) -> None:
        """Note what one example needs: four tensors as large as the largest output (a residual block's most)."""
        sizes = [1]
        with ExitStack() as undo:
            for module in model.modules():
                hook = module.register_forward_hook(lambda _module, _inputs, out: sizes.append(n_bytes(out)))
                undo.callback(hook.remove)
            self.forward(example)
        self.bytes = 4 * max(sizes)

    def plan(self, gates: Gates, examples: int, memory: int) -> Plan:
        examples = max(1, min(examples, memory // self.bytes))
        together = max(1, memory // (self.bytes * examples)) if self.neurons.batchable else 1
        gates = gates[:together]
        return Plan(gates, examples, float(len(gates)))

    def logits(self, images: Tensor, plan: Plan, means: Means) -> Float[Tensor, "p b k"]:
        gates = [part for _, part in self.neurons.by_layer(plan.gates)]
        return gated_logits(self.forward, self.neurons, gates, means, images)


def gated_logits(
    forward: Forward, neurons: Neurons, gates: Sequence[Tensor], means: Means, images: Tensor
) -> Float[Tensor, "p b k"]:
    """Logits with each row of the gates (p, n of the layer) on its own copy of the images."""
    p = len(gates[0])
    with gated(neurons, gates, means):
        copies = images.repeat(p, *[1] * (images.ndim - 1)) if p > 1 else images
        return torch.unflatten(forward(copies), 0, (p, -1))


def n_bytes(output: object) -> int:
    """Of a tensor; 0 for anything else a module may return."""
    return output.numel() * output.element_size() if isinstance(output, Tensor) else 0

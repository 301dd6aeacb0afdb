"""How much every unit says: the sum of what ReLU lets through."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from snv.neurons.find import Neurons, evaluating
from snv.neurons.trace import Trace
from snv.neurons.wiring import Units


def activity(body: nn.Module, neurons: Neurons, units: Units, batches: Iterable[Tensor]) -> Float64[Tensor, " u"]:
    """Σ over images and positions of each unit's signal behind its ReLU, in evaluation mode.

    A stream of a residual network has such a signal behind every block, and all of them count.
    """
    total = torch.zeros(units.n, dtype=torch.float64)
    starts = {layer.name: layer.start for layer in neurons.layers}

    def add(layer: str, signal: Tensor) -> None:
        sums = signal.sum([d for d in range(signal.ndim) if d != 1], dtype=torch.float64).cpu()
        total.index_add_(0, units.of_neuron[starts[layer] : starts[layer] + len(sums)], sums)

    with evaluating(body), torch.inference_mode():
        for batch in batches:
            _Heard(body, add).run(body, batch)
    return total


class _Heard(Trace):
    """A forward pass that tells of what comes out of every ReLU."""

    def __init__(self, model: nn.Module, tell: Any) -> None:
        super().__init__(model)
        self.tell = tell

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = super().__torch_function__(func, types, args, kwargs)
        if getattr(func, "__name__", "") in ("relu", "relu_") and (sources := self.behind(output)):
            self.tell(sources[0].layer, output)
        return output

"""A module of one's own as the body of a network: it gives features, or logits, whose last layer is left out."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from snv.errors import UserError
from snv.networks.body import Body
from snv.networks.strided import mend
from snv.shapes import Features, Images


class OwnBody(Body):
    """A user's module as a body; how many features it gives is found out by trying it."""

    def __init__(self, inner: nn.Module, shape: tuple[int, int, int]) -> None:
        super().__init__()
        self.inner = inner.eval()
        mend(self.inner)
        self.n_features = _tried(inner, shape).shape[1]

    def forward(self, images: Images) -> Features:
        features: Features = self.inner(images)
        return features


def own_body(module: nn.Module, shape: tuple[int, int, int]) -> OwnBody:
    """A copy of a module as a body: without the linear layer whose output it gives, if there is one.

    That layer is a classifier of other classes, and every task gets a head of its own in its place.
    """
    twin = copy.deepcopy(module).eval()
    if name := _last_linear(twin, shape):
        if name == ".":
            raise UserError("Your network is a single linear layer, so nothing would be shared by tasks. Add layers.")
        twin.set_submodule(name, nn.Identity())
    return OwnBody(twin, shape)


def _last_linear(module: nn.Module, shape: tuple[int, int, int]) -> str | None:
    """The linear layer whose output is the output of the module."""
    outputs: list[tuple[str, Tensor]] = []

    def watch(name: str) -> Any:
        return lambda _module, _inputs, output: outputs.append((name, output))

    layers = [(name, layer) for name, layer in module.named_modules() if isinstance(layer, nn.Linear)]
    handles = [layer.register_forward_hook(watch(name or ".")) for name, layer in layers]
    try:
        result = _tried(module, shape)
    finally:
        for handle in handles:
            handle.remove()
    return next((name for name, output in outputs if output is result), None)


def _tried(module: nn.Module, shape: tuple[int, int, int]) -> Tensor:
    """What a user's module gives for images of this shape."""
    try:
        with torch.no_grad():
            features = module(torch.zeros(2, *shape, device=next(module.parameters(), torch.empty(0)).device))
    except Exception as error:
        raise UserError(f"Your network cannot read images of shape {shape}: {error}. Set size and channels.") from None
    if not isinstance(features, Tensor) or features.ndim != 2:
        result = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
        raise UserError(
            f"Your network should give features (b, f) for images; it gives {result}. Remove or add layers."
        )
    return features

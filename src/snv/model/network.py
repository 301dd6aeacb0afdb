"""The untrained network of a model: one of ours by its name, or a user's own module, if it can be cut."""

from __future__ import annotations

from typing import TypedDict

import torch
from torch import Tensor, nn

from snv.data import Preprocess
from snv.devices import resolve_device
from snv.errors import UserError
from snv.networks import Body, Network, build_network, mend
from snv.shapes import Features, Images
from snv.subnetworks import Specialists, require_cuttable


class Spec(TypedDict):
    """What a model is made from, as its directory keeps it."""

    network: str  # "custom": a user's own
    width: int | None
    stem: str | None
    shape: list[int]  # of a picture: channels, height, width
    capacity: float  # share of the free neurons that a task may take
    seed: int


class OwnBody(Body):
    """A user's module as a body; how many features it gives is found out by trying it."""

    def __init__(self, inner: nn.Module, shape: tuple[int, int, int]) -> None:
        super().__init__()
        self.inner = inner.eval()
        mend(self.inner)
        self.n_features = _n_features(inner, shape)

    def forward(self, images: Images) -> Features:
        features: Features = self.inner(images)
        return features


def picture_format(spec: Spec) -> Preprocess:
    """How pixels become the input of the network."""
    channels, size, _ = spec["shape"]
    half = (0.5,) * channels
    return Preprocess(half, half, (channels, size, size), "crop-flip" if channels == 3 else "none")


def without_tasks(spec: Spec, own: nn.Module | None, device: str) -> Specialists:
    """A new network that has learned nothing."""
    channels, size, _ = spec["shape"]
    if channels not in (1, 3):
        raise UserError(f"Images have 1 channel (grey) or 3 (colour); got {channels}.")
    if not 0 < spec["capacity"] <= 1:
        raise UserError(f"capacity is the share of neurons a task may take, in (0, 1]; got {spec['capacity']}.")
    shape, where = (channels, size, size), resolve_device(device)
    if own is None:
        network = build_network(spec["network"], shape, spec["seed"], width=spec["width"], stem=spec["stem"])
    else:
        network = Network(OwnBody(own, shape), spec["seed"])
    network = network.to(where).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    try:
        specialists = Specialists(network, shape)
        network.eval()
        if own is not None:
            require_cuttable(specialists.body, specialists.neurons, shape)
    except (ValueError, TypeError, RuntimeError, KeyError) as error:  # of tracing someone's code
        reason = str(error).strip().splitlines()[0]
        raise UserError(f"Subnetworks cannot be cut out of your network ({reason}). Use plain layers in it.") from None
    return specialists


def _n_features(own: nn.Module, shape: tuple[int, int, int]) -> int:
    """The number of features a user's module gives for images of this shape."""
    try:
        with torch.no_grad():
            features = own(torch.zeros(2, *shape))
    except Exception as error:
        raise UserError(f"Your network cannot read images of shape {shape}: {error}. Set size and channels.") from None
    if not isinstance(features, Tensor) or features.ndim != 2:
        result = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
        raise UserError(
            f"Your network should give features (b, f) for images; it gives {result}. Remove or add layers."
        )
    return features.shape[1]

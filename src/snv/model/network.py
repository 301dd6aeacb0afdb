"""The untrained network of a model: one of ours by its name, or a user's own module, if it can be cut."""

from __future__ import annotations

from typing import (
    Annotated,
    Literal,
    NotRequired,  # what pydantic asks for before Python 3.12
)

import torch
import torch.nn.functional as F
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import TypedDict

from snv.data import Preprocess
from snv.errors import UserError
from snv.machine import resolve_device
from snv.networks import MOST_FEATURES, Body, Network, OnnxSpace, OwnBody, PatchSpace, Pretrained, build_network
from snv.shapes import Images
from snv.subnetworks import Common, Specialists, require_cuttable

LARGEST_SIDE, MOST_PLACES = 1024, 2**25
"""Pixels along a side, and places times channels of a layer: a model is proved with 16 images at once."""
Finite = Annotated[float, Field(allow_inf_nan=False)]


class FileFormat(TypedDict):
    """What a pretrained network in a file takes, and gives."""

    size: Annotated[int, Field(ge=8, le=LARGEST_SIDE)]
    mean: Annotated[list[Finite], Field(min_length=3, max_length=3)]
    std: Annotated[list[Annotated[Finite, Field(gt=0)]], Field(min_length=3, max_length=3)]
    n_features: Annotated[int, Field(ge=2, le=MOST_FEATURES)]


class Spec(TypedDict):
    """What a model is made from, as its directory keeps it."""

    network: str  # "custom": a user's own
    width: Annotated[int, Field(ge=1)] | None
    stem: str | None
    shape: list[Annotated[int, Field(ge=1)]]  # of a picture as the network sees it: channels, height, width
    capacity: Finite  # share of the free neurons that a task may take
    seed: int
    common: NotRequired[
        Literal["patches", "file"]
    ]  # the space in which all classes are compared: patches, file; older models have none
    features: NotRequired[FileFormat]  # of the file
    detail: NotRequired[
        Annotated[int, Field(ge=1, le=128)]
    ]  # pictures are read at so many times the side the network sees, for the file; else 1


def picture_format(spec: Spec) -> Preprocess:
    """How the pixels of a picture are read."""
    channels, size, _ = spec["shape"]
    side, half = size * detail(spec), (0.5,) * channels
    return Preprocess(half, half, (channels, side, side), "crop-flip" if channels == 3 else "none")


def file_format(file: Pretrained) -> FileFormat:
    """What a model keeps of a features file besides its bytes."""
    return {"size": file.size, "mean": [*file.mean], "std": [*file.std], "n_features": file.n_features}


def detail(spec: Spec) -> int:
    """How many times larger pictures are read than the network sees them."""
    return spec.get("detail", 1)


def shrunk(images: Images, times: int) -> Float[Tensor, "b c rows columns"]:
    """Pictures as the network sees them: means of times × times pixels."""
    if times == 1:
        return images
    channels_last = images.is_contiguous(memory_format=torch.channels_last)
    small = F.avg_pool2d(images, times)
    return small.contiguous(memory_format=torch.channels_last) if channels_last else small


def common_space(spec: Spec, data: bytes | None = None) -> Common | None:
    """The space in which all classes are compared; tasks can be taken out of it. ``data``: of a features file."""
    if "common" not in spec:
        return None
    preprocess = picture_format(spec)
    space: Body = PatchSpace(preprocess.shape, spec["seed"], directions="clusters")
    if (features := spec.get("features")) is not None:
        taken = features["size"], tuple(features["mean"]), tuple(features["std"]), features["n_features"]
        space = OnnxSpace(Pretrained(data or b"", *taken), preprocess.mean, preprocess.std)
    return Common(space, open_answers=True, separable=True)


def without_tasks(spec: Spec, own: nn.Module | None, device: str, data: bytes | None = None) -> Specialists:
    """A new network that has learned nothing; ``data`` are the bytes of the features file, if there is one."""
    channels, size, _ = spec["shape"]
    if channels not in (1, 3):
        raise UserError(f"Images have 1 channel (grey) or 3 (colour); got {channels}.")
    if size > LARGEST_SIDE or size**2 * (spec["width"] or 1) > MOST_PLACES:
        raise UserError(
            f"Pictures of {size} pixels in a network of width {spec['width']} need too much memory: sides up to "
            f"{LARGEST_SIDE}, and side² × width up to {MOST_PLACES:,}. Use smaller pictures."
        )
    if not 0 < spec["capacity"] <= 1:
        raise UserError(f"capacity is the share of neurons a task may take, in (0, 1]; got {spec['capacity']}.")
    shape, where = (channels, size, size), resolve_device(device)
    if own is None:
        network = build_network(spec["network"], shape, spec["seed"], width=spec["width"], stem=spec["stem"])
    else:
        network = Network(OwnBody(own, shape), spec["seed"])
    network = network.to(where).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    try:
        common = common_space(spec, data)
        if common is not None:
            common.space.to(where)
        specialists = Specialists(network, shape, common=common)
        network.eval()
        if own is not None:
            require_cuttable(specialists.body, specialists.neurons, shape)
    except (ValueError, TypeError, RuntimeError, KeyError) as error:  # of tracing someone's code
        reason = str(error).strip().splitlines()[0]
        raise UserError(f"Subnetworks cannot be cut out of your network ({reason}). Use plain layers in it.") from None
    return specialists

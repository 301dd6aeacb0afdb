"""The catalogue of networks, and how to build one from its name."""

from __future__ import annotations

from collections.abc import Sequence

from snv.errors import UserError, unknown
from snv.networks.autoencoder import AutoEncoder, Code, Factors, Rescaling
from snv.networks.body import Body
from snv.networks.head import Network, Specialist, bytes_of, frozen_copy, n_parameters, n_units
from snv.networks.imitator import Imitator, Patches, answers, own_answers, patches
from snv.networks.layers import (
    DROPOUTS,
    FUNCTIONS,
    MAPS,
    NORM_PARTS,
    NORMS,
    JointNorm,
    Kind,
    cut_linear,
    kind_of,
    places,
    rearranged,
)
from snv.networks.norms import load_norm, norm_state, use_instance_norm
from snv.networks.onnx_session import LARGEST, extra, open_session, reason_of, run
from snv.networks.onnx_space import MEAN, MOST_FEATURES, SHRINKAGE, STD, OnnxSpace, Pretrained, read_pretrained
from snv.networks.own import OwnBody, own_body
from snv.networks.packing import pack
from snv.networks.projector import Projector, Spherical
from snv.networks.resnet import ResNet18
from snv.networks.small import MLP, ConvNet, PlainConvNet
from snv.networks.space import N_IMAGES, Directions, PatchSpace
from snv.networks.strided import mend
from snv.networks.tokens import TokenHead, TokenNetwork, answers_of, divergence_head, token_network
from snv.seeding import generator

__all__ = [
    "DROPOUTS",
    "FUNCTIONS",
    "LARGEST",
    "MAPS",
    "MEAN",
    "MLP",
    "MOST_FEATURES",
    "NETWORKS",
    "NORMS",
    "NORM_PARTS",
    "N_IMAGES",
    "SHRINKAGE",
    "STD",
    "AutoEncoder",
    "Body",
    "Code",
    "Directions",
    "Factors",
    "Imitator",
    "JointNorm",
    "Kind",
    "Network",
    "OnnxSpace",
    "OwnBody",
    "PatchSpace",
    "Patches",
    "PlainConvNet",
    "Pretrained",
    "Projector",
    "Rescaling",
    "Specialist",
    "Spherical",
    "TokenHead",
    "TokenNetwork",
    "answers",
    "answers_of",
    "build_network",
    "bytes_of",
    "cut_linear",
    "divergence_head",
    "extra",
    "frozen_copy",
    "kind_of",
    "load_norm",
    "mend",
    "n_parameters",
    "n_units",
    "norm_state",
    "open_session",
    "own_answers",
    "own_body",
    "pack",
    "patches",
    "places",
    "read_pretrained",
    "rearranged",
    "reason_of",
    "resolve",
    "run",
    "token_network",
    "use_instance_norm",
]

NETWORKS: dict[str, str] = {
    "resnet18": "ResNet-18; width 64 (default) or less, stem 3x3, 3x3/2, 3x3/4 or 7x7/2 (default by image size)",
    "convnet": "four 3×3 convolutions with BatchNorm for images up to 28 pixels; width 32 (default)",
    "mlp": "linear layers with ReLU; hidden sizes 256, 256 (default)",
}

OPTIONS: dict[str, set[str]] = {"resnet18": {"width", "stem"}, "convnet": {"width"}, "mlp": {"hidden"}}


def resolve(name: str, shape: tuple[int, int, int]) -> str:
    """The network that "auto" stands for: convnet up to 28 pixels, ResNet-18 above; other names stay."""
    if name == "auto":
        return "convnet" if max(shape[1:]) <= 28 else "resnet18"
    if name not in NETWORKS:
        raise unknown("network", name, [*NETWORKS, "auto"])
    return name


def build_network(
    name: str,
    shape: tuple[int, int, int],
    seed: int,
    width: int | None = None,
    stem: str | None = None,
    hidden: Sequence[int] | None = None,
) -> Network:
    """A network without heads for images of ``shape`` (c, h, w); the same seed gives the same weights."""
    name = resolve(name, shape)
    _check(name, shape, {"width": width, "stem": stem, "hidden": hidden})
    rng = generator(seed, "network")
    body: Body
    match name:
        case "resnet18":
            large = min(shape[1:]) >= 128
            body = ResNet18(rng, shape[0], width or 64, stem or ("7x7/2" if large else "3x3"))
        case "convnet":
            body = ConvNet(rng, shape[0], width or 32)
        case _:
            body = MLP(rng, shape, hidden or (256, 256))
    mend(body)
    return Network(body, seed)


def _check(name: str, shape: tuple[int, int, int], options: dict[str, object]) -> None:
    """Refuse options the network does not have, sizes that are not positive, and images that are too small."""
    for option, value in options.items():
        if value is not None and option not in OPTIONS[name]:
            raise UserError(f"{name} has no option {option!r}; got {value!r}. It has: {', '.join(OPTIONS[name])}.")
    hidden = options["hidden"]
    sizes = [*shape, *(hidden if isinstance(hidden, Sequence) else []), options["width"] or 1]
    if any(not isinstance(size, int) or size < 1 for size in sizes) or options["width"] == 0 or hidden == []:
        raise UserError(f"{name} needs sizes of at least 1; got shape {shape}, {options}. Leave them out for defaults.")
    if name == "convnet" and min(shape[1:]) < 2:
        raise UserError(f"convnet halves the image once, so it needs 2 × 2 pixels; got {shape}. Use mlp instead.")

"""A feature map out of a file: any pretrained network in ONNX, run as it is and never trained.

The file is part of whatever is kept, so that answers need nothing else and the proof includes it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from snv.errors import UserError
from snv.files import read_bytes
from snv.networks.body import Body
from snv.networks.onnx_session import LARGEST, open_session, reason_of, run
from snv.shapes import Features, Images

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of ImageNet, which most pretrained networks expect to be taken off their images."""
SIZE = 224
"""Of pictures, where a file takes any."""
SLOWEST = 2.0
"""Seconds for a picture; slower files would make every answer a wait."""
MOST_FEATURES = 10_000
"""Of a picture; their covariances have the square of it."""
CHUNK = 32
"""Images at a time."""
SHRINKAGE = 0.5
"""Of the covariance of such features, which are many and depend on each other."""


@dataclass(frozen=True)
class Pretrained:
    """A network in a file, what pictures it takes, and what was found when it was tried."""

    data: bytes
    size: int
    mean: tuple[float, ...] = MEAN
    std: tuple[float, ...] = STD
    n_features: int = 0
    seconds: float = 0.0  # for a picture, when it was tried


def read_pretrained(
    path: str | Path, size: int | None = None, mean: Sequence[float] = MEAN, std: Sequence[float] = STD
) -> Pretrained:
    """The file at ``path``, tried once: it reads RGB images (b, 3, size, size) and gives finite, repeatable features.

    ``size`` is by default what the file says; ``mean`` and ``std`` are taken off pixels in [0, 1] as it was trained.
    """
    path = Path(path).expanduser()
    if len(mean) != 3 or len(std) != 3 or min(std) <= 0:
        raise UserError(f"Mean and deviation are three numbers each, deviations positive; got {mean} and {std}.")
    try:
        data = read_bytes(path, LARGEST)
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}). Give an ONNX file.") from None
    session = open_session(data, str(path), 1)
    found = Pretrained(data, _side(session, path, size), tuple(map(float, mean)), tuple(map(float, std)))
    return _tried(found, session, path)


class OnnxSpace(Body):
    """Features of images as a pretrained network sees them, divided by their usual size."""

    def __init__(self, pretrained: Pretrained, mean: Sequence[float], std: Sequence[float]) -> None:
        """``mean`` and ``std`` are those that were taken off the images it will be given."""
        super().__init__()
        self.n_features = pretrained.n_features
        own, theirs = (
            [torch.tensor(x, dtype=torch.float64).view(1, -1, 1, 1) for x in pair]
            for pair in ((mean, std), (pretrained.mean, pretrained.std))
        )
        self.file: Tensor
        self.side: Tensor
        self.factor: Tensor
        self.shift: Tensor
        self.scale: Tensor
        self.register_buffer("file", torch.frombuffer(bytearray(pretrained.data), dtype=torch.uint8))
        self.register_buffer("side", torch.tensor(pretrained.size))
        self.register_buffer("factor", (own[1] / theirs[1]).float())
        self.register_buffer("shift", ((own[0] - theirs[0]) / theirs[1]).float())
        self.register_buffer("scale", torch.ones((), dtype=torch.float64))
        self._sessions: dict[int, Any] = {}

    @property
    def size(self) -> int:
        """The side of the images that the file takes: part of the state, since answers depend on it."""
        return int(self.side)

    @torch.no_grad()
    def fit(self, images: Images) -> None:
        """Set the scale by some images of the first task, so that features are around 1 whatever the file."""
        self.scale.fill_(1.0)
        size = self(images).double().square().mean().sqrt()
        self.scale.copy_(1 / size.clamp(min=1e-6))

    def forward(self, images: Images) -> Features:
        parts = [self._run(self.prepared(chunk)) for chunk in images.split(CHUNK)]
        return torch.cat(parts).to(images.device) * self.scale.to(images.device).float()

    def prepared(self, images: Images) -> Float[Tensor, "b rgb side side"]:
        """Images as the file takes them."""
        if images.shape[2:] != (self.size, self.size):
            images = F.interpolate(images, (self.size, self.size), mode="bilinear", align_corners=False)
        return images * self.factor + self.shift  # grey ones become RGB here

    def _run(self, images: Images) -> Features:
        threads = torch.get_num_threads()
        if threads not in self._sessions:
            self._sessions = {threads: open_session(self.file.cpu().numpy().tobytes(), "the features file", threads)}
        try:
            return torch.from_numpy(features_of(self._sessions[threads], images.detach().cpu().contiguous().numpy()))
        except Exception as error:  # as in `open_session`
            raise UserError(
                f"The features file cannot be run ({reason_of(error)}). Restore a copy of the model."
            ) from None

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        super()._load_from_state_dict(*args, **kwargs)
        self._sessions = {}

    def __getstate__(self) -> dict[str, Any]:
        """Of a copy: sessions cannot be copied, and are opened when they are needed."""
        return self.__dict__ | {"_sessions": {}}


def features_of(session: Any, images: NDArray[np.float32]) -> NDArray[np.float32]:
    """What the network says of images (b, 3, h, w): one row of features each; maps are averaged over places."""
    taken = session.get_inputs()[0]
    one_by_one = taken.shape[0] == 1
    batches = np.split(images, len(images)) if one_by_one else [images]
    outputs = [run(session, {taken.name: batch}) for batch in batches]
    features: NDArray[np.float32] = np.concatenate(outputs).astype(np.float32)
    return features.mean((2, 3)) if features.ndim == 4 else features


def _side(session: Any, path: Path, size: int | None) -> int:
    """The side of the pictures the file takes."""
    inputs = session.get_inputs()
    shape = inputs[0].shape
    if (
        len(inputs) != 1
        or inputs[0].type != "tensor(float)"
        or len(shape) != 4
        or shape[1] not in (3, None, "channels")
    ):
        told = ", ".join(f"{x.name} {x.shape} of {x.type}" for x in inputs)
        raise UserError(
            f"{path} takes {told}; needed is one input of floats (batch, 3, height, width). Export it that way."
        )
    if isinstance(shape[0], int) and shape[0] != 1:
        raise UserError(f"{path} takes batches of exactly {shape[0]} images. Export it with a free batch size.")
    fixed = {side for side in shape[2:] if isinstance(side, int)}
    if len(fixed) > 1 or (size is not None and fixed and fixed != {size}):
        wanted = f", not {size}" if size is not None else "; needed are squares"
        raise UserError(
            f"{path} takes images of {shape[2]} × {shape[3]} pixels{wanted}. Leave out the size, or export anew."
        )
    side = size or next(iter(fixed), SIZE)
    if not 8 <= side <= 1024:
        raise UserError(f"Images for a features file have a side of 8 to 1024 pixels; got {side}.")
    return side


def _tried(pretrained: Pretrained, session: Any, path: Path) -> Pretrained:
    """Run once on made-up pictures: shape, determinism, speed."""
    rng = np.random.default_rng(0)
    images = rng.standard_normal((4, 3, pretrained.size, pretrained.size)).astype(np.float32)
    try:
        features = features_of(session, images)
        start = time.perf_counter()
        again = features_of(session, images)
        seconds = (time.perf_counter() - start) / len(images)
        alone = features_of(session, images[:1])
    except Exception as error:  # as above
        sides = f"{pretrained.size} × {pretrained.size}"
        raise UserError(f"{path} cannot read images of {sides} pixels ({reason_of(error)}). Set its size.") from None
    if features.ndim != 2 or len(features) != len(images) or features.shape[1] < 2:
        raise UserError(
            f"{path} should give features (batch, f) or maps (batch, f, h, w); its first output is {features.shape} "
            f"for {len(images)} images. Export the layer before the classifier."
        )
    if features.shape[1] > MOST_FEATURES:
        raise UserError(
            f"{path} gives {features.shape[1]:,} features, more than {MOST_FEATURES:,}. Export an earlier layer."
        )
    if not np.isfinite(features).all():
        raise UserError(
            f"{path} gives features that are not numbers (NaN or infinity). Check mean, deviation and file."
        )
    if not np.array_equal(features, again):
        raise UserError(
            f"{path} gives other features for the same image. Export it in evaluation mode, without dropout."
        )
    size = float(np.abs(features).max())
    if not np.allclose(features[:1], alone, atol=1e-3 * max(size, 1e-6)):
        raise UserError(f"{path} sees an image differently beside others. Export it in evaluation mode.")
    if np.ptp(features, axis=0).max() == 0:
        raise UserError(f"{path} gives the same features for every image. Export the layer before the classifier.")
    if seconds > SLOWEST:
        raise UserError(
            f"{path} takes {seconds:.1f} s for a picture, more than {SLOWEST:g}. Use a smaller one or a smaller size."
        )
    return Pretrained(pretrained.data, pretrained.size, pretrained.mean, pretrained.std, features.shape[1], seconds)

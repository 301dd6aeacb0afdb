"""What the paper's searches share: learning rates, and the shape of a choice for each of its data sets."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

Settings = Mapping[str, Any]
"""Values of settings by their dotted names, such as ``train.lr``."""

NOTHING: Settings = MappingProxyType({})

RATES = (1e-4, 1e-3, 1e-2, 3e-2, 1e-1)
LOW_RATES = RATES[:-1]
"""Of WSN, PEC and SpaceNet."""

SNV_SPACE: Mapping[str, tuple[float, ...]] = {
    "train.lr": RATES,
    "learner.capacity": (0.05, 0.1, 0.2),
    "learner.floor": (0.01, 0.05, 0.1),
    "learner.confidence": (0.9, 0.95, 0.99),
}


def paper_presets(
    lr: float, chosen: Settings = NOTHING, tiny: Settings = NOTHING, imagenet: Settings = NOTHING
) -> Mapping[str, Settings]:
    """What the paper chose for each data set; on ImageNet-1k the learning rate is always a tenth.

    ``tiny`` and ``imagenet`` are what differs on Tiny-ImageNet and ImageNet-1k.
    """
    return {
        "paper/cifar100": {"train.lr": lr, **chosen},
        "paper/tiny-imagenet": {"train.lr": lr, **chosen, **tiny},
        "paper/imagenet-1k": {"train.lr": lr / 10, **chosen, **imagenet},
    }

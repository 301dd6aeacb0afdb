"""The settings of DCNet, checked when they are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from snv.components import LARGEST
from snv.learners.checks import check_least, check_range


@dataclass(frozen=True)
class DCNetConfig:
    """Learning rate, batch size and epochs are those of training."""

    contrast: float = 1.0  # λ_dc, the weight of L_con: the paper's for CIFAR-100 and Tiny-ImageNet (ImageNet-1k: 0.5)
    switch: float = 0.57  # share of a task's epochs before L_con joins in: the authors' 400 of 700
    first_sparsity: float = 1.5  # λ_h of the first task: the authors'
    sparsity: float = 1.0  # λ_h of later tasks: the authors'
    steepest: float = 700.0  # s_max: the authors'
    start: float = 0.0  # mean of e when a task starts: the authors', half of the gates are open; 1 opens 84 %
    gates: Literal["hard", "soft"] = "hard"  # what a task answers with; soft ones, the authors', forget a little
    dimension: int = 256  # of the sphere: the authors'
    views: int = 1  # of each image in a step; the authors' 2 take twice the time
    rotations: bool = False  # images are also seen turned thrice, as other classes: the authors'; 4 times the time
    classifier_epochs: int = 100  # of the linear layer: the authors'
    classifier_passes: int = 3  # of training images through the body for it, each augmented anew; the authors': 100

    def __post_init__(self) -> None:
        check_least(self, 0, "contrast", "first_sparsity", "sparsity")
        check_least(self, 1, "steepest", "dimension", "classifier_epochs", "classifier_passes")
        check_range(self, "switch", 0, 1, advice="Try 0.57, or 1 to do without the contrastive loss.")
        check_range(self, "start", -LARGEST, LARGEST, advice="Try 0, or 1 in a small network.")
        check_range(self, "views", 1, 2, advice="Try 1, or the authors' 2.")

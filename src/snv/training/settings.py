"""How every method trains unless it says otherwise: the paper's loop as one frozen dataclass."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from snv.errors import UserError


@dataclass(frozen=True)
class TrainSettings:
    """Adam (0.9, 0.999, 1e-8), batches of 64, at most 200 epochs, early stopping; a fresh optimiser for every stage."""

    epochs: int = 200  # the paper's cap
    batch_size: int = 64  # the paper's
    lr: float = 1e-3  # the paper's grid holds 1e-4 … 1e-1; its 1e-2 is high for Adam on a ResNet with BatchNorm
    weight_decay: float = 0.0
    optimizer: Literal["adam", "adamw", "sgd"] = "adam"
    momentum: float = 0.9  # of "sgd" only
    patience: int | None = None  # epochs without a better validation loss before training stops and the best epoch is
    # restored; 0 = never (the authors' re-run). None: 15, but 0 beside a rate that decays, which is best at its end
    schedule: Literal["constant", "linear", "cosine"] = "constant"  # the last two fall to 0 at the last step
    warmup: float = 0.0  # epochs in which the rate rises from 0
    smoothing: float = 0.0  # share of a training label that is spread over all classes; validation has none
    clip_norm: float | None = None  # largest gradient norm of a step
    augment: bool = True  # the data set's own augmentation: crops and flips for photographs, none for digits
    precision: Literal["auto", "fp32", "bf16"] = "auto"  # auto: bf16 on GPUs that multiply it natively
    channels_last: bool = True  # 1.3 times the speed of convolutions on CPUs, more on GPUs

    def __post_init__(self) -> None:
        if self.patience is None:
            object.__setattr__(self, "patience", 15 if self.schedule == "constant" else 0)
        for name, least in (("epochs", 1), ("batch_size", 1), ("patience", 0), ("warmup", 0)):
            if getattr(self, name) < least:
                raise UserError(f"train.{name} is at least {least}; got {getattr(self, name)}.")
        if not 0 < self.lr < math.inf:
            raise UserError(f"train.lr, the learning rate, is a positive number; got {self.lr}. Try 0.001.")
        if not 0 <= self.smoothing < 1:
            raise UserError(f"train.smoothing is a share, so it lies in [0, 1); got {self.smoothing}. Try 0.1.")
        if self.weight_decay < 0:
            raise UserError(f"train.weight_decay is not negative; got {self.weight_decay}.")
        if self.clip_norm is not None and self.clip_norm <= 0:
            raise UserError(f"train.clip_norm is positive, or left out for no clipping; got {self.clip_norm}.")

    def lr_at(self, epoch: float) -> float:
        """The learning rate at a moment of training, ``epoch`` counting fractions."""
        if epoch < self.warmup:
            return self.lr * max(epoch, 0.01) / self.warmup
        share = min(1.0, (epoch - self.warmup) / max(1e-9, self.epochs - self.warmup))
        match self.schedule:
            case "linear":
                return self.lr * (1 - share)
            case "cosine":
                return self.lr * 0.5 * (1 + math.cos(math.pi * share))
            case "constant":
                return self.lr

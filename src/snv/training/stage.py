"""What one step and one stretch of training see."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from snv.data import Split
from snv.machine import Part
from snv.seeding import generator
from snv.shapes import Images, Indices, Labels, Logits, Pixels
from snv.training.losses import cross_entropies
from snv.training.settings import TrainSettings


@dataclass(frozen=True)
class Stage:
    """One stretch of training within a task. Most methods have one; NFL has three, NISPA as many as it needs."""

    name: str
    settings: TrainSettings
    phase: str = "train"  # what its cost counts as: train, consolidate, …
    begins: int = 0  # epochs of the task that were before it
    of_epochs: int | None = None  # how many the task has: one schedule runs through all stages; None: this stage's own
    train: Split | None = field(default=None, compare=False)  # what it trains on; None: the task's training split

    def lr_at(self, epoch: float) -> float:
        """The learning rate at a moment of this stage, ``epoch`` counting fractions."""
        return replace(self.settings, epochs=self.of_epochs or self.settings.epochs).lr_at(self.begins + epoch)


@dataclass(frozen=True)
class Batch:
    """One step's data, on the training device, and where in training it is."""

    images: Images  # normalised, augmented
    labels: Labels  # global class indices
    pixels: Pixels  # the same images as stored: what a buffer keeps
    index: Indices  # their positions in the training split
    stage: Stage
    task: int
    epoch: int
    step: int  # within the epoch
    n_steps: int  # of the epoch
    seed: int  # of this very step
    part: Part | None = None  # which of the step's images these are, if several processes share them

    @property
    def size(self) -> int:
        """Images of the step, in all processes."""
        return len(self.labels) if self.part is None else self.part.of

    def rng(self, purpose: str) -> torch.Generator:
        """Randomness for this step: the same after an interruption, whatever was drawn before."""
        return generator(self.seed, purpose)

    def parts(self, n: int) -> Iterator[Batch]:
        """These images as so many batches of about the same size, of at least two images each."""
        n = max(1, min(n, len(self.labels) // 2))
        splits = (part.tensor_split(n) for part in (self.images, self.labels, self.pixels, self.index))
        for images, labels, pixels, index in zip(*splits, strict=True):
            yield replace(self, images=images, labels=labels, pixels=pixels, index=index)

    def cross_entropy(self, logits: Logits, scope: range | None) -> Tensor:
        """Its mean over these images within ``scope``, with labels smoothed as `TrainSettings.smoothing` says."""
        return cross_entropies(logits, self.labels, scope, self.stage.settings.smoothing).mean()

"""What a learner is given when it is made, and how images are made ready for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch

from snv.data import Preprocess, Split
from snv.machine import Part, ranks
from snv.networks import Network
from snv.shapes import Images, Indices, Labels, Pixels
from snv.training.settings import TrainSettings
from snv.valuation import OfSplit

Scenario = Literal["til", "cil"]
EVALUATION_BATCH = 256
"""Fixed, so that evaluations repeat bit for bit."""


@dataclass(frozen=True)
class Setting:
    """What a learner is given when it is made. No data, no logger, no file."""

    network: Network
    scenario: Scenario
    train: TrainSettings
    preprocess: Preprocess
    device: torch.device
    seed: int
    n_tasks: int

    def autocast(self) -> AbstractContextManager[Any]:
        """bf16 where `TrainSettings.precision` says so; wrap forward passes of training in it, nothing else."""
        if self.train.precision == "bf16":
            return torch.autocast(self.device.type, torch.bfloat16)
        return nullcontext()

    def augmented(
        self, pixels: Pixels, settings: TrainSettings, rng: torch.Generator, part: Part | None = None
    ) -> Images:
        """Images as a step takes them, changed at random if its ``settings`` say so.

        ``part``: which images of a larger batch these are; they are changed as they would be within it.
        """
        return self.preprocess(pixels, self.device, rng if settings.augment else None, settings.channels_last, part)

    def prepared(
        self,
        split: Split,
        rows: Indices | None = None,
        batch: int = EVALUATION_BATCH,
        tell: Callable[[float, float], None] = lambda *_: None,
        shared: bool = False,
    ) -> Iterator[tuple[Images, Labels]]:
        """Images as the network takes them, not augmented, and their labels: all of a split, or some rows of it.

        ``tell`` hears how many have passed, and of how many. ``shared``: each of several processes gets other batches.
        """
        rows = torch.arange(len(split)) if rows is None else rows
        batches = rows.split(batch)[ranks.rank() :: ranks.size()] if shared else rows.split(batch)
        done, n = 0, sum(map(len, batches))
        for pixels, labels in split.batches(batches):
            tell(done, n)
            yield self.preprocess(pixels, self.device, None, self.train.channels_last), labels.to(self.device)
            done += len(labels)
        tell(done, n)

    def examples(self, split: Split) -> OfSplit:
        """The same images, fetched when they are needed, for a game that asks for them again and again."""
        return OfSplit(split, self.preprocess, self.device, self.train.channels_last)

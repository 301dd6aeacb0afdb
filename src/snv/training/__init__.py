"""The one training loop."""

from __future__ import annotations

from snv.training.loop import EVALUATION_BATCH, Surroundings, Training, descend, prepared
from snv.training.settings import TrainSettings
from snv.training.stage import Batch, Stage

__all__ = ["EVALUATION_BATCH", "Batch", "Stage", "Surroundings", "TrainSettings", "Training", "descend", "prepared"]

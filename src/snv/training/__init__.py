"""Training: the one loop, the course of a task, and what a learner is given."""

from __future__ import annotations

from snv.training.loop import Training, backward, descend
from snv.training.losses import cross_entropies, first_class, n_right
from snv.training.reporter import Reporter, loss_so_far, note_of
from snv.training.setting import EVALUATION_BATCH, Scenario, Setting
from snv.training.settings import TrainSettings
from snv.training.stage import Batch, Stage
from snv.training.task import Place, learn_stages, learn_task

__all__ = [
    "EVALUATION_BATCH",
    "Batch",
    "Place",
    "Reporter",
    "Scenario",
    "Setting",
    "Stage",
    "TrainSettings",
    "Training",
    "backward",
    "cross_entropies",
    "descend",
    "first_class",
    "learn_stages",
    "learn_task",
    "loss_so_far",
    "n_right",
    "note_of",
]

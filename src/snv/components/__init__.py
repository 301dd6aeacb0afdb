"""What several methods share: frozen weights, penalties, importance, teachers, replay, Gaussian classes."""

from __future__ import annotations

from snv.components.dark import in_columns, passed, two_draws
from snv.components.distillation import distillation
from snv.components.fisher import Answers, answer_weights, fisher_of, squared_gradients
from snv.components.freezing import Frozen, bits, unmoved
from snv.components.gaussians import ClassSums, Discriminant, discriminant, joined, packed, unpacked
from snv.components.penalty import HOLDS_WEIGHTS_ONLY, Weights, copied, held, restored, weighted_distance
from snv.components.redraw import redraw
from snv.components.replay import Exemplars, Joined, Reservoir, buffer_size, exemplars_per_class, herd
from snv.components.teacher import restored_teacher, teacher_state

__all__ = [
    "HOLDS_WEIGHTS_ONLY",
    "Answers",
    "ClassSums",
    "Discriminant",
    "Exemplars",
    "Frozen",
    "Joined",
    "Reservoir",
    "Weights",
    "answer_weights",
    "bits",
    "buffer_size",
    "copied",
    "discriminant",
    "distillation",
    "exemplars_per_class",
    "fisher_of",
    "held",
    "herd",
    "in_columns",
    "joined",
    "packed",
    "passed",
    "redraw",
    "restored",
    "restored_teacher",
    "squared_gradients",
    "teacher_state",
    "two_draws",
    "unmoved",
    "unpacked",
    "weighted_distance",
]

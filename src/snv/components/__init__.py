"""What several methods share: frozen weights, gates, penalties, importance, teachers, replay, classes in a space."""

from __future__ import annotations

from snv.components.attended import Attended, Wire
from snv.components.attention import LARGEST, TaskGates, new_use
from snv.components.dark import in_columns, passed, two_draws
from snv.components.directions import new_directions, require_room
from snv.components.distillation import distillation
from snv.components.fisher import Answers, answer_weights, fisher_of, squared_gradients
from snv.components.freezing import Frozen, Slowed, bits, unmoved
from snv.components.gaussians import ClassSums, Discriminant, discriminant, joined, packed, unpacked
from snv.components.linear import fit_linear
from snv.components.penalty import HOLDS_WEIGHTS_ONLY, Weights, copied, held, restored, weighted_distance
from snv.components.redraw import redraw
from snv.components.replay import Exemplars, Joined, Reservoir, buffer_size, exemplars_per_class, herd
from snv.components.teacher import restored_teacher, teacher_state

__all__ = [
    "HOLDS_WEIGHTS_ONLY",
    "LARGEST",
    "Answers",
    "Attended",
    "ClassSums",
    "Discriminant",
    "Exemplars",
    "Frozen",
    "Joined",
    "Reservoir",
    "Slowed",
    "TaskGates",
    "Weights",
    "Wire",
    "answer_weights",
    "bits",
    "buffer_size",
    "copied",
    "discriminant",
    "distillation",
    "exemplars_per_class",
    "fisher_of",
    "fit_linear",
    "held",
    "herd",
    "in_columns",
    "joined",
    "new_directions",
    "new_use",
    "packed",
    "passed",
    "redraw",
    "require_room",
    "restored",
    "restored_teacher",
    "squared_gradients",
    "teacher_state",
    "two_draws",
    "unmoved",
    "unpacked",
    "weighted_distance",
]

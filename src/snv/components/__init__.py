"""What several methods share: frozen, gated and sparse weights, penalties, importance, teachers, replay, Gaussians."""

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
from snv.components.own_connections import OwnConnections
from snv.components.penalty import HOLDS_WEIGHTS_ONLY, Weights, copied, held, restored, weighted_distance
from snv.components.redraw import redraw
from snv.components.replay import Exemplars, Joined, Reservoir, buffer_size, exemplars_per_class, herd
from snv.components.sparsity import (
    Masks,
    all_but,
    at_random,
    disconnect,
    grown,
    highest,
    is_first_convolution,
    redraw_plastic,
)
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
    "Masks",
    "OwnConnections",
    "Reservoir",
    "Slowed",
    "TaskGates",
    "Weights",
    "Wire",
    "all_but",
    "answer_weights",
    "at_random",
    "bits",
    "buffer_size",
    "copied",
    "disconnect",
    "discriminant",
    "distillation",
    "exemplars_per_class",
    "fisher_of",
    "fit_linear",
    "grown",
    "held",
    "herd",
    "highest",
    "in_columns",
    "is_first_convolution",
    "joined",
    "new_directions",
    "new_use",
    "packed",
    "passed",
    "redraw",
    "redraw_plastic",
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

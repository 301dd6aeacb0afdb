"""What several methods share: frozen weights, penalties, replayed images, Gaussian classes."""

from __future__ import annotations

from snv.components.freezing import Frozen, bits
from snv.components.gaussians import ClassSums, Discriminant, discriminant, joined, packed, unpacked
from snv.components.penalty import HOLDS_WEIGHTS_ONLY, Weights, copied, held, restored, weighted_distance
from snv.components.redraw import redraw
from snv.components.replay import Exemplars, Joined, Reservoir, buffer_size, check_buffer, exemplars_per_class, herd

__all__ = [
    "HOLDS_WEIGHTS_ONLY",
    "ClassSums",
    "Discriminant",
    "Exemplars",
    "Frozen",
    "Joined",
    "Reservoir",
    "Weights",
    "bits",
    "buffer_size",
    "check_buffer",
    "copied",
    "discriminant",
    "exemplars_per_class",
    "held",
    "herd",
    "joined",
    "packed",
    "redraw",
    "restored",
    "unpacked",
    "weighted_distance",
]

"""What several methods share: frozen weights, penalties, replayed images."""

from __future__ import annotations

from snv.components.freezing import Frozen, bits
from snv.components.penalty import HOLDS_WEIGHTS_ONLY, Weights, copied, held, restored, weighted_distance
from snv.components.redraw import redraw
from snv.components.replay import Exemplars, Joined, Reservoir, buffer_size, check_buffer, exemplars_per_class, herd

__all__ = [
    "HOLDS_WEIGHTS_ONLY",
    "Exemplars",
    "Frozen",
    "Joined",
    "Reservoir",
    "Weights",
    "bits",
    "buffer_size",
    "check_buffer",
    "copied",
    "exemplars_per_class",
    "held",
    "herd",
    "redraw",
    "restored",
    "weighted_distance",
]

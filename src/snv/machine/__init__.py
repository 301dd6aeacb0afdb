"""What there is to compute with: devices and memory, the processes of one training, and what they find around them."""

from __future__ import annotations

from snv.machine import ranks
from snv.machine.devices import Resources, resolve_device, resolve_precision
from snv.machine.ranks import Part
from snv.machine.shortage import halving, is_shortage, let_go, told
from snv.machine.surroundings import joined, load_ray, with_environment

__all__ = [
    "Part",
    "Resources",
    "halving",
    "is_shortage",
    "joined",
    "let_go",
    "load_ray",
    "ranks",
    "resolve_device",
    "resolve_precision",
    "told",
    "with_environment",
]

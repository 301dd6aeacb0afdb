"""One seed, and an independent generator for every purpose."""

from __future__ import annotations

import hashlib

import torch


def derived_seed(seed: int, *purpose: str | int) -> int:
    """A 63-bit seed for one purpose: the same for the same words, unrelated for any others."""
    text = "\x1f".join([str(seed), *map(str, purpose)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def generator(seed: int, *purpose: str | int) -> torch.Generator:
    """A CPU generator for one purpose, e.g. ``generator(0, "class order")``; drawing from it disturbs no other."""
    return torch.Generator().manual_seed(derived_seed(seed, *purpose))

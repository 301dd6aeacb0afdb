"""Where to compute, and how exactly, if "auto" is to decide it; and how much of a machine a run takes."""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch

from snv.errors import UserError
from snv.machine import ranks


def resolve_device(wanted: str) -> torch.device:
    """The device to train on; "auto" takes a GPU if there is one."""
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
        return torch.device(_own_gpu(wanted))
    wanted = _own_gpu(wanted)
    try:
        device = torch.device(wanted)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"Device {wanted!r} cannot be used here ({reason}). Try --device cpu.") from None
    return device


def _own_gpu(wanted: str) -> str:
    """Of processes that train together each has a GPU of its own."""
    if ranks.size() == 1 or not wanted.startswith("cuda"):
        return wanted
    if wanted != "cuda":
        raise UserError(
            f"device={wanted} names one GPU, and {ranks.size()} processes train together. Use device=cuda: each takes "
            "the GPU of its own number."
        )
    return f"cuda:{ranks.local_rank()}"


def resolve_precision(wanted: str, device: torch.device) -> str:
    """bf16 only on GPUs that multiply it natively: a run on a CPU computes alike whatever the processor can do."""
    if wanted != "auto":
        return wanted
    return "bf16" if device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False) else "fp32"


UNITS = {"": 1, "B": 1} | {
    f"{prefix}{suffix}": base**power
    for power, prefix in enumerate("kMGT", start=1)
    for suffix, base in (("B", 1000), ("iB", 1024))
}


@dataclass(frozen=True)
class Resources:
    """What a run takes of a machine where many share it; it changes no result, so no record holds it."""

    cpus: float = 1.0  # one thread each
    gpus: float = 0.0  # 0.25: four runs share one
    memory: str | None = None  # such as "2GB"; None: whatever is there

    def __post_init__(self) -> None:
        if self.cpus <= 0 or (self.cpus > 1 and self.cpus % 1):
            raise UserError(f"resources.cpus is a share of one core or a whole number of them; got {self.cpus}.")
        if self.gpus < 0 or (self.gpus > 1 and self.gpus % 1):
            raise UserError(f"resources.gpus is 0, a share of one GPU or a whole number of them; got {self.gpus}.")
        _ = self.bytes

    @property
    def threads(self) -> int:
        return max(1, int(self.cpus))

    @property
    def bytes(self) -> int:
        """Of memory; 0 where none is asked for."""
        if self.memory is None:
            return 0
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(\w*)\s*", self.memory)
        if found is None or found[2] not in UNITS:
            raise UserError(f"resources.memory is a number with a unit, such as 2GB or 500MiB; got {self.memory!r}.")
        return int(float(found[1]) * UNITS[found[2]])

    def __str__(self) -> str:
        parts = {"CPU": self.cpus, "GPU": self.gpus}
        words = [f"{number:g} {name}{'s' if number > 1 else ''}" for name, number in parts.items() if number]
        return " and ".join([*words, *([f"{self.memory} of memory"] if self.memory else [])])

"""Where to compute, and how exactly, if "auto" is to decide it."""

from __future__ import annotations

from pathlib import Path

import torch

from snv import ranks
from snv.errors import UserError


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
    """bf16 only where the hardware multiplies it natively: elsewhere it is half as fast as fp32."""
    if wanted != "auto":
        return wanted
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp32"
    return "bf16" if device.type == "cpu" and cpu_multiplies_bf16() else "fp32"


def cpu_multiplies_bf16() -> bool:
    flags = Path("/proc/cpuinfo")
    text = flags.read_text() if flags.exists() else ""
    return "amx_bf16" in text or "avx512_bf16" in text

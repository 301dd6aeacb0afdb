"""What a run costs: multiply-accumulates and seconds by phase, peak memory, latency."""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from snv.files import State


class Meter:
    """Counts work as it is done.

    The first batch of every kind of work runs under PyTorch's own operation counter, forward and backward; later ones
    are counted by their images. So the number is right for any method, whatever its step does.
    """

    def __init__(self) -> None:
        self.macs: dict[str, float] = defaultdict(float)
        self.seconds: dict[str, float] = defaultdict(float)
        self.peak_bytes = 0
        self._per_image: dict[str, float] = {}
        self._open: list[str] = []  # phases under way, the innermost last
        self._since = 0.0

    @contextmanager
    def counted(self, phase: str, kind: str, n_images: int) -> Iterator[None]:
        """Add the multiply-accumulates of the block; ``kind`` names work that is the same for every image."""
        if kind in self._per_image:
            yield
        else:
            with FlopCounterMode(display=False) as counter:
                yield
            self._per_image[kind] = counter.get_total_flops() / 2 / n_images
        self.macs[phase] += self._per_image[kind] * n_images

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Add the seconds of the block; those of a block inside it count for the inner phase only."""
        self._settle()
        self._open.append(phase)
        try:
            yield
        finally:
            self._settle()
            self._open.pop()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add seconds and multiply-accumulates of work that is about the same each time."""
        with self.timed(name), self.counted(name, name, 1):
            yield

    def _settle(self) -> None:
        """Book the time since the last call."""
        now = time.perf_counter()
        if self._open:
            self.seconds[self._open[-1]] += now - self._since
        self._since = now

    def counts(self) -> State:
        """The part that is the same in every repetition of a run."""
        return {"macs": dict(self.macs), "per_image": dict(self._per_image)}

    def load_counts(self, state: State) -> None:
        self.macs = defaultdict(float, state["macs"])
        self._per_image = dict(state["per_image"])

    def measured(self) -> dict[str, Any]:
        """The part that differs from run to run: time and memory so far."""
        self._settle()
        self.peak_bytes = max(self.peak_bytes, peak_memory())
        return {"seconds": dict(self.seconds), "peak_bytes": self.peak_bytes}

    def load_measured(self, state: dict[str, Any]) -> None:
        self.seconds = defaultdict(float, state["seconds"])
        self.peak_bytes = state["peak_bytes"]


def peak_memory() -> int:
    """The most memory this process has held so far, in bytes: of the GPU if one is used, else of the process."""
    if torch.cuda.is_available() and torch.cuda.max_memory_allocated():
        return torch.cuda.max_memory_allocated()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def latency_ms(predict: Callable[[torch.Tensor], object], image: torch.Tensor, batch: int, repeats: int = 7) -> float:
    """Median milliseconds per image at a batch size, after one warm-up call."""
    images = image.expand(batch, *image.shape).contiguous()
    seconds = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        predict(images)
        if images.is_cuda:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return 1000 * statistics.median(seconds[1:]) / batch

"""What a run costs: multiply-accumulates and seconds by phase, peak memory, latency."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook
from torch.utils.flop_counter import FlopCounterMode
from torch.utils.hooks import RemovableHandle

from snv.files import State
from snv.networks import MAPS
from snv.runs.memory import PeakMemory


class Meter:
    """Counts work as it is done, for any method, whatever its step does, and costs next to nothing itself.

    `counted` is for batches: the first of a kind and size runs under PyTorch's own operation counter, forward and
    backward, and every later one is known to cost the same. All other work of a phase is as large as the data make it:
    there every convolution and linear layer reports what it does. Products of matrices outside layers are counted in
    `counted` only.
    """

    def __init__(self, device: torch.device | None = None) -> None:
        self.macs: dict[str, float] = defaultdict(float)
        self.seconds: dict[str, float] = defaultdict(float)
        self.memory = PeakMemory(device or torch.device("cpu"))
        self._of_batch: dict[str, float] = {}
        self._open: list[str] = []  # phases under way, the innermost last
        self._since = 0.0
        self._booked = 0.0  # multiply-accumulates so far, in all phases and outside them
        self._ear: RemovableHandle | None = None

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the seconds and multiply-accumulates of the block; a block inside it counts for the inner phase only."""
        self._settle()
        self._open.append(name)
        try:
            with self._listening(True):
                yield
        finally:
            self._settle()
            self._open.pop()

    @contextmanager
    def counted(self, kind: str, n: int) -> Iterator[None]:
        """Add the multiply-accumulates of the block to the phase under way; every block of a kind and n costs the same.

        A phase or a counted block that begins inside the block counts for itself.
        """
        key, booked = f"{kind}, {n}", self._booked
        with self._listening(False):
            if key in self._of_batch:
                yield
            else:
                with FlopCounterMode(display=False) as counter:
                    yield
                self._of_batch[key] = counter.get_total_flops() / 2 - (self._booked - booked)
        self._book(self._of_batch[key])

    # ---- layers that report

    @contextmanager
    def _listening(self, on: bool) -> Iterator[None]:
        """Whether layers report while the block runs."""
        before = self._ear is not None
        self._listen(on)
        try:
            yield
        finally:
            self._listen(before)

    def _listen(self, on: bool) -> None:
        if on and self._ear is None:
            self._ear = register_module_forward_hook(self._hear)
        elif not on and self._ear is not None:
            self._ear.remove()
            self._ear = None

    def _hear(self, module: nn.Module, inputs: tuple[Any, ...], output: object) -> None:
        """A layer has answered; if its answer is differentiated later, that counts when it happens."""
        if not isinstance(module, MAPS) or not isinstance(output, Tensor):
            return
        n = output.numel() * module.weight[0].numel()
        self._report(n)
        if output.requires_grad:
            n_products = inputs[0].requires_grad + module.weight.requires_grad  # one for each gradient asked for
            output.register_hook(lambda _: self._report(n * n_products))

    def _report(self, macs: float) -> None:
        if self._ear is not None:
            self._book(macs)

    def _book(self, macs: float) -> None:
        self._booked += macs
        if self._open:
            self.macs[self._open[-1]] += macs

    # ---- seconds

    def _settle(self) -> None:
        """Book the time since the last call."""
        now = time.perf_counter()
        if self._open:
            self.seconds[self._open[-1]] += now - self._since
        self._since = now

    # ---- what is kept

    def counts(self) -> State:
        """The part that is the same in every repetition of a run."""
        return {"macs": dict(self.macs), "of_batch": dict(self._of_batch)}

    def load_counts(self, state: State) -> None:
        self.macs = defaultdict(float, state["macs"])
        self._of_batch = dict(state.get("of_batch", {}))  # an older checkpoint has none: they are counted anew

    def measured(self) -> dict[str, Any]:
        """The part that differs from run to run: time and memory so far."""
        self._settle()
        return {"seconds": dict(self.seconds)} | self.memory.measured()

    def load_measured(self, state: dict[str, Any]) -> None:
        self.seconds = defaultdict(float, state["seconds"])
        self.memory.load_measured(state)


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

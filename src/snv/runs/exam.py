"""What a run asks its learner: rows of the accuracy matrix, and how long an answer takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from snv.data import TaskStream
from snv.learners import Learner
from snv.machine import is_shortage, ranks
from snv.runs.details import Details
from snv.runs.evaluate import Answers, answers
from snv.runs.meter import Meter, latency_ms
from snv.runs.progress import Progress
from snv.runs.record import Record
from snv.training import Reporter


@dataclass(frozen=True, eq=False)
class Exam:
    """Of one run; what it finds goes into the record."""

    learner: Learner[Any]
    stream: TaskStream
    record: Record
    meter: Meter
    tell: Progress

    def of_untrained(self) -> None:
        """b_j of forward transfer: the network before any training, on every task."""
        found = self._answers("evaluate the untrained network", len(self.stream))
        self.record.untrained[:] = [one.accuracy for one in found]

    def of_row(self, t: int) -> None:
        """Row t: all tasks learned so far, and the next one, which forward transfer asks for."""
        n, what = min(t + 2, len(self.stream)), f"task {t + 1} of {len(self.stream)}"
        found = self._answers(f"{what}, evaluate", n)
        self.record.accuracy[t, :n] = [one.accuracy for one in found]
        self.record.details = Details.of([self.stream.names(j) for j in range(t + 1)], found)
        if self.learner.setting.scenario == "cil":
            known = self._answers(f"{what}, evaluate with the task known", t + 1, known=True)
            self.record.known[t, : t + 1] = [one.accuracy for one in known]

    @torch.inference_mode()
    def of_speed(self) -> None:
        """Latency at batch 1 and 64, and parameters: no cost of the run, so none of it is counted."""
        self.learner.reporter = Reporter()
        block = self.stream.blocks[-1] if self.learner.setting.scenario == "til" else None
        image = next(self.learner.setting.prepared(self.stream.test(0), torch.tensor([0])))[0][0]
        latencies = ranks.told(lambda: {b: ms for b in (1, 64) if (ms := self._latency(image, block, b)) is not None})
        self.record.cost = {
            "latency_ms": {str(batch): ms for batch, ms in latencies().items()},
            "parameters": sum(p.numel() for p in self.learner.network.parameters()),
        }

    def _answers(self, what: str, n: int, known: bool | None = None) -> list[Answers]:
        """Of the first ``n`` tasks."""
        with self.meter.phase("evaluate"):
            return [self._answers_of(j, known, lambda share, j=j: self.tell(what, j + share, n)) for j in range(n)]  # type: ignore[misc]

    def _answers_of(self, j: int, known: bool | None, tell: Callable[[float], None]) -> Answers:
        return answers(self.learner, self.stream.test(j), self.stream.blocks[j], known, tell)

    def _latency(self, image: Tensor, block: range | None, batch: int) -> float | None:
        """None of a batch that is too large for the memory there is."""
        try:
            return latency_ms(lambda x: self.learner.logits(x, block), image, batch)
        except Exception as error:
            if not is_shortage(error):
                raise
            return None

"""What replay methods keep of old tasks: a reservoir of samples, or the herded exemplars of every class.

Images are from training splits only and stay as they came, uint8 and not augmented, in main memory.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from snv.data import InMemory, Split
from snv.files import State
from snv.shapes import Features, Indices, Labels, Pixels

log = logging.getLogger(__name__)

SIZES = {"cil": 2000, "til": 200}
"""Images kept by default, as in the paper; for ImageNet-1k in CIL it keeps 20,000, so set ``buffer = 20000`` there."""


def buffer_size(asked: int | None, scenario: str) -> int:
    """The number of images a method may keep."""
    return SIZES[scenario] if asked is None else asked


# ---- reservoir


def reservoir_slots(offered: int, n: int, capacity: int, rng: torch.Generator) -> tuple[Indices, Indices]:
    """Which of the next ``n`` samples are kept, and where: all samples offered so far are then equally likely kept.

    Sample number N takes slot N while there is room, later a slot drawn from {0..N}; it is dropped if that is no slot
    (Vitter, 1985).
    """
    number = offered + torch.arange(n)
    drawn = (torch.rand(n, generator=rng, dtype=torch.float64) * (number + 1)).long()
    slots = torch.where(number < capacity, number, drawn).tolist()
    kept = {slot: row for row, slot in enumerate(slots) if slot < capacity}  # of two for one slot the later stays
    return torch.tensor([*kept.values()], dtype=torch.int64), torch.tensor([*kept], dtype=torch.int64)


class Reservoir:
    """A uniform sample of all rows offered so far, in columns such as pixels, labels and logits."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.offered = capacity, 0
        self._columns: dict[str, Tensor] = {}  # each with `capacity` rows, of which the first len(self) are filled

    def __len__(self) -> int:
        return min(self.offered, self.capacity)

    def offer(self, rng: torch.Generator, **columns: Tensor) -> None:
        """Offer rows; a column of vectors may be longer than before, and what was kept then ends in zeros."""
        n = len(next(iter(columns.values())))
        rows, slots = reservoir_slots(self.offered, n, self.capacity, rng)
        self.offered += n
        for name, column in columns.items():
            self._room(name, column)[slots] = column[rows].cpu()

    def draw(self, n: int, rng: torch.Generator) -> dict[str, Tensor]:
        """``n`` rows (all, if there are fewer), uniformly and without repetition."""
        rows = torch.randperm(len(self), generator=rng)[:n]
        return {name: column[rows] for name, column in self._columns.items()}

    def _room(self, name: str, like: Tensor) -> Tensor:
        column = self._columns.get(name)
        if column is None:
            column = torch.zeros(self.capacity, *like.shape[1:], dtype=like.dtype)
        elif like.ndim == 2 and like.shape[1] > column.shape[1]:
            column = F.pad(column, (0, like.shape[1] - column.shape[1]))
        self._columns[name] = column
        return column

    def state_dict(self) -> State:
        return {"offered": self.offered, "columns": {name: x[: len(self)] for name, x in self._columns.items()}}

    def load_state_dict(self, state: State) -> None:
        self.offered, self._columns = state["offered"], {}
        for name, column in state["columns"].items():
            self._room(name, column)[: len(self)] = column.cpu()


# ---- exemplars


def herd(features: Features, m: int) -> Indices:
    """The ``m`` rows whose running mean stays nearest to the mean of all, best first (iCaRL's Algorithm 4).

    Pick i minimises ‖μ − (f + S)/i‖ with S the sum of earlier picks; as i²‖·‖² = ‖f‖² − 2 f·(iμ − S) + const, one
    product of a matrix with a vector per pick is enough.
    """
    f = features.double().cpu()
    mean, squares, total = f.mean(0), f.square().sum(1), torch.zeros_like(f[0])
    picks: list[int] = []
    for i in range(1, min(m, len(f)) + 1):
        cost = squares - 2 * (f @ (i * mean - total))
        cost[picks] = torch.inf
        picks.append(int(cost.argmin()))
        total += f[picks[-1]]
    return torch.tensor(picks, dtype=torch.int64)


class Exemplars:
    """The images that stand for each class, in herding order: the first few are always the best few."""

    def __init__(self) -> None:
        self.of_class: list[Pixels] = []

    def __len__(self) -> int:
        return sum(map(len, self.of_class))

    def shorten(self, m: int) -> None:
        """Keep the first ``m`` of every class."""
        self.of_class = [pixels[:m].clone() for pixels in self.of_class]

    def add(self, pixels: Pixels) -> None:
        """The exemplars of the next class."""
        self.of_class.append(pixels.clone())

    def choose(self, split: Split, block: range, features: Features, capacity: int) -> None:
        """Shorten the lists to make room within ``capacity``, then herd the classes of ``block`` from a split.

        One memory, chosen once from all images of the split as they are, whatever else runs beside.
        """
        m = exemplars_per_class(capacity, block.stop)
        self.shorten(m)
        features = features.cpu()
        of_class = [(split.labels == c).nonzero().flatten() for c in block]
        for pixels, _ in split.batches([mine[herd(features[mine], m)] for mine in of_class]):
            self.add(pixels)
        if len(self) > capacity:
            asked = f"{capacity} images for {block.stop} classes"
            log.warning("a buffer of %s: one is kept of each, %d in all", asked, len(self))

    def split(self) -> InMemory:
        """All of them with their labels, class after class."""
        counts = torch.tensor([len(pixels) for pixels in self.of_class])
        return InMemory(torch.cat(self.of_class), torch.arange(len(counts)).repeat_interleave(counts))

    def state_dict(self) -> State:
        return list(self.of_class)

    def load_state_dict(self, state: State) -> None:
        self.of_class = [pixels.cpu() for pixels in state]


def exemplars_per_class(capacity: int, n_classes: int) -> int:
    """m = ⌊K / classes⌋, and one where that is none: a class without an exemplar could never be recognised."""
    return max(1, capacity // n_classes)


class Joined(Split):
    """Two splits read as one; the positions of the second follow those of the first."""

    def __init__(self, first: Split, second: Split) -> None:
        self.first, self.second = first, second
        self.labels = torch.cat([first.labels, second.labels])

    def batches(self, order: Iterable[Indices]) -> Iterator[tuple[Pixels, Labels]]:
        order, n = list(order), len(self.first)
        from_first = self.first.batches([index[index < n] for index in order if (index < n).any()])
        from_second = self.second.batches([index[index >= n] - n for index in order if (index >= n).any()])
        for index in order:
            inside = index < n
            parts = [next(part)[0] for part, any_of in ((from_first, inside), (from_second, ~inside)) if any_of.any()]
            places = torch.cat([inside.nonzero(), (~inside).nonzero()]).flatten()  # where the rows of `parts` belong
            yield torch.cat(parts)[places.argsort()], self.labels[index]

    def close(self) -> None:
        self.first.close()
        self.second.close()

"""What tasks share without training it: a fixed space in which every class ever seen can be compared with every other.

A specialist knows its own classes well and nothing of others; the common space knows all classes a little. With the
task known, its specialist and its closed-form head are two opinions, joined by weights from its own validation images.
Without it, the common space says which few tasks are worth asking, and only their specialists run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from snv.components import ClassSums, Discriminant, discriminant, packed, unpacked
from snv.files import State
from snv.networks import SHRINKAGE as PRETRAINED
from snv.networks import Body, OnnxSpace, bytes_of
from snv.shapes import Features, Images, Labels, Logits
from snv.subnetworks.opinions import opinion_weights, weighed

ASKED = 3
"""Specialists that are asked at most about an image whose task is not known: more cost time and add next to nothing."""
MARGIN = 1.0
"""And only those with a class that the common space finds less likely than its favourite by this at most, in nats;
nobody, if no other class comes as close."""

Ask: TypeAlias = Callable[[Images, int], Logits]
"""What the specialist of a task says of some images."""
Batches: TypeAlias = Callable[[], Iterable[tuple[Images, Features]]]
"""Some images, batch after batch, and their features in the common space; they are asked for again and again."""


@dataclass(frozen=True, eq=False)
class CommonTask:
    """What one task leaves in the common space; none of it ever changes."""

    head: Discriminant  # of its own classes, by their own covariance
    weights: Float[Tensor, " 2"]  # of its specialist and of its head
    open_weights: Float[
        Tensor, " 2"
    ]  # of the common space and of the task's own answer, where no task is known; 0: none
    classes: ClassSums | None  # if that is asked for; products are kept once for all tasks, unless they are separable

    def state(self) -> State:
        classes = self.classes.state() if self.classes is not None else None
        weights = {"weights": self.weights, "open_weights": self.open_weights}
        return {"head": self.head.state(), **weights, "classes": classes}

    @staticmethod
    def from_state(state: State, device: torch.device | None = None) -> CommonTask:
        classes = ClassSums.from_state(state["classes"], device) if state["classes"] is not None else None
        weights, open_weights = state["weights"].to(device), state["open_weights"].to(device)
        return CommonTask(Discriminant.from_state(state["head"], device), weights, open_weights, classes)


class Common:
    """The space, and what every task has left in it."""

    def __init__(self, space: Body, open_answers: bool, separable: bool) -> None:
        """``open_answers``: also without the task; ``separable``: each task keeps its own products, so it can go."""
        self.space, self.open_answers, self.separable = space, open_answers, separable
        self.discriminant = (
            partial(discriminant, shrinkage=PRETRAINED) if isinstance(space, OnnxSpace) else discriminant
        )
        self.tasks: list[CommonTask] = []
        self.products: Tensor | None = None  # Σ φφᵀ over all classes, where tasks do not keep their own
        self._all: Discriminant | None = None  # of all classes as they are now

    @torch.no_grad()
    def features(self, images: Images) -> Features:
        return self.space(images)

    # ---- answers

    def answer(self, own: Logits, features: Features, t: int) -> Logits:
        """Of task t's classes: what its specialist says, joined with its head in the common space."""
        part = self.tasks[t]
        return weighed(part.weights, [own.log_softmax(1), part.head(features).log_softmax(1)]).float()

    def open_answer(self, images: Images, features: Features, ask: Ask) -> Logits:
        """Of all classes: the common space weighs tasks, the most likely of them are asked about their classes."""
        everywhere = self._everywhere(features)
        within = self._within_tasks(images, self.worth_asking(everywhere), ask)
        return weighed(self.open_weights(), [everywhere, within]).float()

    def open_weights(self) -> Float[Tensor, " 2"]:
        """Of the common space and of the tasks' answers: the mean of what tasks asked for.

        A task that was alone had no other to be told from and asked for nothing; as long as there is no other, its head
        and its specialist are joined as if it were known.
        """
        asked = [part.open_weights for part in self.tasks if part.open_weights.any()]
        return torch.stack(asked or [part.weights.flip(0) for part in self.tasks]).double().mean(0)

    def _everywhere(self, features: Features) -> Logits:
        """Log-posteriors of all classes in the common space."""
        if self._all is None:
            self._all = self.discriminant(self.pooled())
        return self._all(features).log_softmax(1)

    def _within_tasks(self, images: Images, asked: Bool[Tensor, "b t"] | None, ask: Ask) -> Logits:
        """Log-posteriors of classes within each task, by its specialist; one that is not asked finds all alike.

        ``asked``: None asks everybody about every image, which is how weights are found.
        """
        if asked is None:
            return torch.cat([ask(images, t).log_softmax(1) for t in range(len(self.tasks))], dim=1)
        said = [images.new_full((len(images), len(block)), -math.log(len(block))) for block in self.blocks()]
        for t, rows in enumerate(column.nonzero()[:, 0] for column in asked.T):
            if len(rows):
                said[t] = said[t].index_put((rows,), ask(images[rows], t).log_softmax(1).to(said[t]))
        return torch.cat(said, dim=1)

    def worth_asking(self, everywhere: Logits) -> Bool[Tensor, "b t"]:
        """The tasks with the most likely classes in the common space, if it hesitates between classes at all."""
        favourites = everywhere.topk(2, dim=1).values
        hesitates = favourites[:, :1] - favourites[:, 1:] <= MARGIN
        best = torch.stack([everywhere[:, block.start : block.stop].amax(1) for block in self.blocks()], dim=1)
        first = best.topk(min(ASKED, len(self.tasks)), dim=1)
        close = hesitates & (first.values >= first.values[:, :1] - MARGIN)
        return torch.zeros_like(best, dtype=torch.bool).scatter(1, first.indices, close)

    def blocks(self) -> list[range]:
        sizes = [len(part.head.bias) for part in self.tasks]
        return [range(sum(sizes[:t]), sum(sizes[: t + 1])) for t in range(len(sizes))]

    # ---- one task more, one task less

    @torch.no_grad()
    def add(self, sums: ClassSums, validation: Batches, labels: Labels, ask: Ask) -> None:
        """The newest task: sums of its training images; its validation images, with labels 0 … k−1."""
        t, head = len(self.tasks), self.discriminant(sums)
        opinions = [(ask(x, t).log_softmax(1), head(features).log_softmax(1)) for x, features in validation()]
        weights = opinion_weights(_side_by_side(opinions), labels)
        if not self.open_answers:
            self.tasks.append(CommonTask(head, weights, torch.zeros_like(weights), None))
            return
        kept = sums if self.separable else ClassSums(sums.counts, sums.sums, sums.products[:0, :0])
        if not self.separable:
            self.products = sums.products if self.products is None else self.products + sums.products
        self.tasks.append(CommonTask(head, weights, torch.zeros_like(weights), kept))
        self._all = None
        if len(self.tasks) == 1:
            return
        opinions = [(self._everywhere(features), self._within_tasks(x, None, ask)) for x, features in validation()]
        chosen = opinion_weights(_side_by_side(opinions), labels + self.blocks()[-1].start)
        self.tasks[-1] = CommonTask(head, weights, chosen, kept)

    def forget(self, t: int) -> None:
        """Take away exactly what task t added. If it was the first, filters stay whitened with its patches."""
        if self.open_answers and not self.separable:
            raise RuntimeError("The products of all tasks are kept as one sum, so a task cannot be taken out of it.")
        del self.tasks[t]
        self._all = None

    def pooled(self) -> ClassSums:
        """All classes of all tasks."""
        parts = [part.classes for part in self.tasks if part.classes is not None]
        products = self.products if self.products is not None else sum(part.products for part in parts)
        assert isinstance(products, Tensor)
        return ClassSums(torch.cat([p.counts for p in parts]), torch.cat([p.sums for p in parts]), products)

    # ---- what is kept

    def bytes_kept(self, n_classes: int) -> int:
        """About the most: filters, a head; where the task may be unknown also sums and, once, half of all products."""
        f = self.space.n_features
        sums = 8 * n_classes * (f + 1) + 4 * f * (f + 1) if self.open_answers else 0
        return bytes_of(self.space) + 4 * n_classes * (f + 1) + sums

    def state(self) -> State:
        return {
            "space": dict(self.space.state_dict()),
            "tasks": [part.state() for part in self.tasks],
            "products": packed(self.products) if self.products is not None else None,
        }

    def load(self, state: State, device: torch.device) -> None:
        self.space.load_state_dict(state["space"])
        self.tasks = [CommonTask.from_state(part, device) for part in state["tasks"]]
        self.products = unpacked(state["products"].to(device)) if state["products"] is not None else None
        self._all = None


def _side_by_side(batches: list[tuple[Tensor, Tensor]]) -> list[Tensor]:
    """Two opinions on all batches."""
    return [torch.cat(opinion) for opinion in zip(*batches, strict=True)]

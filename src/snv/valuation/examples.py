"""Inputs of a network, fetched when they are needed: a split of any size takes no more memory than a batch of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from snv.data import Preprocess, Split
from snv.errors import UserError
from snv.shapes import Indices

READ_AT_ONCE = 64  # rows per batch wherever all of them pass by
ROOM = 2**26  # bytes of inputs that stay at hand between two calls
READ_TWICE = 8  # examples of a dataset that are compared with themselves

Data: TypeAlias = Any
"""A pair (inputs, labels) of tensors, or anything that gives such pairs: a `Dataset`, a `DataLoader`, a list."""


@runtime_checkable
class Examples(Protocol):
    """The inputs of a network, of which only the rows asked for are in memory."""

    def __len__(self) -> int: ...

    def batches(self, order: Sequence[Indices]) -> Iterator[Tensor]:
        """For every vector of rows one batch, as the network takes it and on its device."""
        ...


class Stacked:
    """Inputs that are one tensor already."""

    def __init__(self, images: Tensor, device: torch.device | None = None) -> None:
        self.images, self.device = images, device or images.device

    def __reduce__(self) -> tuple[type[Stacked], tuple[Tensor, torch.device]]:
        return Stacked, (self.images.clone(), self.device)  # not the tensor that they are a part of

    def __len__(self) -> int:
        return len(self.images)

    def batches(self, order: Sequence[Indices]) -> Iterator[Tensor]:
        for rows in order:
            yield self.images[rows.to(self.images.device)].to(self.device)


class OfSplit:
    """The images of a data split, standardised and not augmented."""

    def __init__(
        self, split: Split, preprocess: Preprocess, device: torch.device | str, channels_last: bool = False
    ) -> None:
        self.split, self.preprocess, self.device, self.channels_last = split, preprocess, device, channels_last

    def __len__(self) -> int:
        return len(self.split)

    def batches(self, order: Sequence[Indices]) -> Iterator[Tensor]:
        for pixels, _ in self.split.batches(order):
            yield self.preprocess(pixels, self.device, None, self.channels_last)


class OfDataset:
    """The inputs of a map-style dataset, item by item; with ``rows`` only those, in that order."""

    def __init__(
        self,
        dataset: Any,
        device: torch.device,
        rows: Indices,
        collate: Callable[[list[Any]], Any] | None = None,
        workers: int = 0,
    ) -> None:
        self.dataset, self.device, self.rows = dataset, device, rows
        self.collate, self.workers = collate or _stacked, workers

    def __len__(self) -> int:
        return len(self.rows)

    def batches(self, order: Sequence[Indices]) -> Iterator[Tensor]:
        for images, _ in self.pairs(order):
            yield images.to(self.device)

    def pairs(self, order: Sequence[Indices]) -> Iterator[tuple[Tensor, Tensor]]:
        """Inputs and labels."""
        loader: DataLoader[Any] = DataLoader(
            self.dataset,
            batch_sampler=[self.rows[rows].tolist() for rows in order],
            collate_fn=self.collate,
            num_workers=self.workers,
            generator=torch.Generator(),  # otherwise every pass would draw from the global one
        )
        for item in loader:
            images, labels = _pair(item)
            yield images, torch.as_tensor(labels).reshape(-1)

    def labels(self) -> Tensor:
        """All of them, read once; every input passes by and is looked at."""
        parts: list[Tensor] = []
        first: Tensor | None = None
        for images, labels in self.pairs(in_batches(len(self))):
            _check_finite(images, READ_AT_ONCE * len(parts))
            first = images[:READ_TWICE].clone() if first is None else first
            parts.append(labels)
        assert first is not None
        self._check_steady(first)
        return torch.cat(parts)

    def _check_steady(self, first: Tensor) -> None:
        """V(S) compares coalitions on the same inputs, which are read again and again."""
        again, _ = next(self.pairs([torch.arange(len(first))]))
        if not torch.equal(first, again):
            raise UserError(
                "The dataset gives another input each time it is asked for the same example, so values would compare "
                "unlike things. Give it without random augmentation, or give two tensors."
            )


class LaidOut:
    """Examples as tensors of one memory layout."""

    def __init__(self, examples: Examples, layout: torch.memory_format) -> None:
        self.examples, self.layout = examples, layout

    def __len__(self) -> int:
        return len(self.examples)

    def batches(self, order: Sequence[Indices]) -> Iterator[Tensor]:
        for images in self.examples.batches(order) if order else ():
            yield images.contiguous(memory_format=self.layout)


class Remembered:
    """Examples of which the rows asked for last stay at hand, if they fit into `ROOM` bytes.

    A small split is prepared once, and a minibatch that many coalitions share is read once.
    """

    def __init__(self, examples: Examples) -> None:
        self.examples = examples
        self._place = torch.full((len(examples),), -1)  # of each row among those at hand
        self._inputs: Tensor | None = None
        self._bytes = 0  # of one example

    def __len__(self) -> int:
        return len(self.examples)

    def batches(self, order: Sequence[Indices]) -> Iterator[Tensor]:
        rows = torch.cat(list(order))
        if self._inputs is None or bool((self._place[rows] < 0).any()):
            if not self._fits(len(rows)):
                yield from self.examples.batches(order)
                return
            self._remember(rows, order)
        for part in order:
            assert self._inputs is not None
            yield self._inputs[self._place[part].to(self._inputs.device)]

    def _fits(self, n: int) -> bool:
        if self._bytes == 0:
            one = next(self.examples.batches([torch.zeros(1, dtype=torch.long)]))
            self._bytes = one.numel() * one.element_size()
        return n * self._bytes <= ROOM

    @torch.inference_mode(False)  # what is remembered may be part of a backward pass later
    @torch.no_grad()
    def _remember(self, rows: Indices, order: Sequence[Indices]) -> None:
        self._inputs = None
        self._inputs = torch.cat(list(self.examples.batches(order)))
        self._place.fill_(-1)
        self._place[rows] = torch.arange(len(rows))


def as_examples(images: Tensor | Examples) -> Examples:
    """Rows of a tensor are at hand; others are fetched, and remembered for a while."""
    return Stacked(images) if isinstance(images, Tensor) else Remembered(images)


def examples_of(data: Data, device: torch.device) -> tuple[Examples, Tensor]:
    """Whatever a user brings as inputs that are fetched when needed, and all labels, on the model's device.

    Note: only what can be read in order and no other way (an iterable) is held in memory as a whole.
    """
    if isinstance(data, tuple | list) and len(data) == 2 and isinstance(data[1], Tensor):
        images, labels = data
        if isinstance(images, Examples):
            return images, labels.to(device)
        if isinstance(images, Tensor):
            return _checked(images, device), labels.to(device)
    dataset = _readable(data, device)
    if dataset is not None:
        return dataset, dataset.labels().to(device)
    images, labels = _collected(data)
    return _checked(images, device), labels.to(device)


def _readable(data: Any, device: torch.device) -> OfDataset | None:
    """A dataset, or what a loader draws from one, whose examples can be read by number; else None."""
    if isinstance(data, DataLoader):
        if data.batch_sampler is None or isinstance(data.dataset, IterableDataset):
            return None
        rows = torch.tensor([row for batch in data.batch_sampler for row in batch], dtype=torch.long)
        return OfDataset(data.dataset, device, _some(rows), data.collate_fn, data.num_workers)
    if not (hasattr(data, "__getitem__") and hasattr(data, "__len__")):
        return None
    rows = _some(torch.arange(len(data)))
    return OfDataset(data, device, rows) if _is_one(_pair(data[0])[1]) else None


def _collected(data: Any) -> tuple[Tensor, Tensor]:
    """Batches, or single examples, of something that is only iterated, joined."""
    images, labels = [], []
    for item in data:
        x, y = _pair(item)
        images.append(x[None] if _is_one(y) else x)
        labels.append(torch.as_tensor(y).reshape(-1))
    _some(images)
    return torch.cat(images), torch.cat(labels)


def _checked(images: Tensor, device: torch.device) -> Stacked:
    for start, part in enumerate(images.split(READ_AT_ONCE)):
        _check_finite(part, READ_AT_ONCE * start)
    return Stacked(images, device)


def _check_finite(images: Tensor, start: int) -> None:
    if not torch.isfinite(images).all():
        bad = start + int((~torch.isfinite(images)).flatten(1).any(1).nonzero()[0])
        raise UserError(f"Example {bad} holds values that are not numbers (NaN or infinity). Repair or remove it.")


def _stacked(items: list[Any]) -> tuple[Tensor, Tensor]:
    pairs = [_pair(item) for item in items]
    return torch.stack([x for x, _ in pairs]), torch.cat([torch.as_tensor(y).reshape(-1) for _, y in pairs])


def _pair(item: Any) -> tuple[Any, Any]:
    try:
        x, y = item
    except (TypeError, ValueError):
        raise UserError(
            f"The data should be pairs (inputs, labels); found {type(item).__name__}. Give two tensors, or a "
            "Dataset or DataLoader that yields pairs."
        ) from None
    return x, y


def _is_one(label: Any) -> bool:
    """Whether a label belongs to a single example rather than to a batch."""
    return not (isinstance(label, Tensor) and label.ndim)


def _some(rows: Any) -> Any:
    if len(rows) == 0:
        raise UserError("The data are empty; valuing neurons needs some examples with labels.")
    return rows


def in_batches(n: int) -> Sequence[Indices]:
    """All rows in order."""
    return torch.split(torch.arange(n), READ_AT_ONCE)

"""What a model's manifest says, checked before anything is built from it: kinds, and sizes that its files bear out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import (
    Annotated,
    Any,
    NotRequired,  # what pydantic asks for before Python 3.12
)

import torch
from pydantic import Field, TypeAdapter, ValidationError
from torch import Tensor
from typing_extensions import TypedDict

from snv.errors import UserError
from snv.files import State
from snv.model.network import LARGEST_SIDE, MOST_PLACES, Finite, Spec
from snv.networks import resolve

Word = Annotated[str, Field(max_length=10_000)]


class StoredTask(TypedDict):
    """`TaskInfo` in JSON; older models lack fingerprints."""

    name: Word
    uid: Annotated[int, Field(ge=0, lt=2**53)]
    classes: Annotated[list[Word], Field(min_length=2)]
    pictures: Annotated[int, Field(ge=0)]
    accuracy: Finite
    temperature: Annotated[Finite, Field(gt=0)]
    open_temperature: Annotated[Finite, Field(gt=0)]
    calibration_error: Finite
    seconds: Finite
    certificate: dict[str, Any]
    fingerprints: NotRequired[dict[str, str]]


SPEC: Callable[..., object] = TypeAdapter(Spec).validate_python
TASKS: Callable[..., object] = TypeAdapter(list[StoredTask]).validate_python
NUMBERS_PER_WIDTH = {"resnet18": 2500, "convnet": 9}
"""A network of width w has more weights than so many times w²."""


def require_content(content: Any) -> None:
    """Refuse a manifest whose parts are of the wrong kind; a ValueError says which."""
    if not isinstance(content, dict):
        raise ValueError("the manifest has no content")
    try:
        SPEC(content.get("spec"), strict=True)
        TASKS(content.get("tasks"), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place}: {first['msg'].lower()}; got {repr(first['input'])[:80]}") from None
    uids = [task["uid"] for task in content["tasks"]]
    if len(set(uids)) < len(uids) or not isinstance(content.get("next_uid"), int):
        raise ValueError("two tasks have one number, or the next has none")


def require_room(spec: Spec, states: Mapping[str, State]) -> None:
    """Refuse a network that would be larger than the weights that are stored for it."""
    stored = sum(tensor.numel() for tensor in states["network"]["body"].values() if isinstance(tensor, Tensor))
    shape = spec["shape"]
    if len(shape) != 3 or shape[1] != shape[2] or max(shape) > LARGEST_SIDE:
        raise ValueError(f"pictures are {shape}")
    if spec["network"] == "custom":
        return
    name, width = resolve(spec["network"], (shape[0], shape[1], shape[2])), spec["width"] or 1
    least = NUMBERS_PER_WIDTH[name] * width**2 if name in NUMBERS_PER_WIDTH else 256 * shape[0] * shape[1] ** 2
    if least > stored or width * shape[1] ** 2 > MOST_PLACES:
        raise ValueError(f"a {name} of width {width} for {shape[1]} pixels is not what {stored:,} weights are of")


@contextmanager
def fitting() -> Iterator[None]:
    """Tensors of wrong sizes show where they are computed with; said in one sentence."""
    try:
        yield
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError, IndexError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise UserError(
            f"The model holds parts that do not fit together ({reason}). Restore it from a copy."
        ) from error


def require_task(part: State, n_classes: int, n_neurons: int) -> None:
    """Refuse a task whose tensors are not of its classes and of the network's neurons."""
    head, mask = part["head"], part["subnetwork"]["mask"]
    probe, values = part["probe"], part["values"]
    fits = (
        head["weight"].shape[0] == len(head["bias"]) == n_classes == probe.shape[1]
        and head["weight"].ndim == probe.ndim == 2
        and mask.dtype == torch.bool
        and mask.shape == values.shape == (n_neurons,)
        and all(x.is_floating_point() for x in (head["weight"], head["bias"], probe, values))
    )
    if not fits:
        raise ValueError("a task's tensors are not of its classes and of the network's neurons")

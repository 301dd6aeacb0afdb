"""What Python hands to a run besides its settings: a network and data of one's own."""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
import torch
from torch import nn

from snv.config import DataConfig, NetworkConfig, RunConfig
from snv.data import Source, TaskStream, as_source
from snv.errors import UserError
from snv.learners import is_own, mark_of_file

OWN = "own"
"""The name of a network, and the beginning of the name of data, that only Python can give."""

MOST = 100_000
"""Images whose pixels enter the fingerprint of data, evenly spaced if there are more."""


@dataclass(frozen=True, eq=False)
class Given:
    """A module, a source and tasks, any of which may be missing."""

    network: nn.Module | None = None
    source: Source | None = None
    stream: TaskStream | None = None


NOTHING = Given()


class Own(TypedDict, total=False):
    """What a run was made with of one's own, given again when it is opened."""

    own_method: str | None  # FILE.py:CLASS, which is executed
    network: nn.Module | None
    data: Any


def given(config: RunConfig, network: nn.Module | None = None, data: Any = None) -> tuple[RunConfig, Given]:
    """The settings of a run that is handed a network or data, which are then named as such; and what it is handed."""
    source = None if data is None else as_source(data)
    if source is not None:
        config = dataclasses.replace(config, data=_named(config.data, source))
    elif config.data.name.startswith(f"{OWN}:"):
        raise UserError("The data of this run were given in Python. Give them again: data=…")
    if network is not None:
        if config.network not in (NetworkConfig(), NetworkConfig(OWN)):
            raise UserError(f"A network of your own has no settings here; got {config.network}. Leave [network] out.")
        config = dataclasses.replace(config, network=NetworkConfig(OWN))
    elif config.network.name == OWN:
        raise UserError("The network of this run was given in Python. Give it again, untrained: network=…")
    return config, Given(network, source)


def marks(config: RunConfig, handed: Given) -> dict[str, str]:
    """Fingerprints of what settings do not say: the network given, the data given, the file of the method."""
    found = {}
    if handed.network is not None:
        found["network"] = mark_of_network(handed.network)
    if handed.source is not None:
        found["images"] = mark_of_images(handed.source)
    if is_own(config.method):
        found["method file"] = mark_of_file(config.method)
    return found


def mark_of_network(network: nn.Module) -> str:
    """Changes with its layers and with any of its weights."""
    digest = hashlib.blake2b(repr(network).encode(), digest_size=8)
    for name, tensor in network.state_dict().items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def mark_of_images(source: Source) -> str:
    """Changes with any pixel."""
    digest = hashlib.blake2b(digest_size=8)
    rows = np.arange(0, len(source.labels), -(-len(source.labels) // MOST))
    for start in range(0, len(rows), 1024):
        some = rows[start : start + 1024]
        part = source.split(some, torch.from_numpy(source.labels[some]))
        for pixels, _ in part.batches([torch.arange(len(some))]):
            digest.update(pixels.contiguous().numpy().tobytes())
    return digest.hexdigest()


def _named(config: DataConfig, source: Source) -> DataConfig:
    """The settings with the name of the data given; those about files would say nothing."""
    name = f"{OWN}:{source.name}"
    if config.name not in (DataConfig.name, name):
        raise UserError(f"Data are given, and data.name is {config.name!r}. Leave one of them out.")
    if (idle := [key for key in ("size", "dir", "workers") if getattr(config, key)]) != []:
        raise UserError(f"data.{idle[0]} says nothing about data that are given. Leave it out.")
    return dataclasses.replace(config, name=name)

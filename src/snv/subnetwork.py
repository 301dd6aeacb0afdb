"""A task's neurons as a network of their own: masked (bit-exact), and the proof that it never changes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import zip_longest

import torch
from torch import Tensor, nn

from snv.compact import compact
from snv.files import State
from snv.flow import NORMS
from snv.inference import Statistics
from snv.masks import own_weights
from snv.neurons import Neurons, Owned
from snv.seeding import generator
from snv.shapes import Entries, Logits, Mask
from snv.valuation.ablation import ablated

N_PROBES = 16


@dataclass(frozen=True, eq=False)
class Subnetwork:
    """What a task needs besides frozen weights and its head: which neurons, constants for the rest, norm state."""

    mask: Mask
    means: Tensor
    norm: dict[str, Tensor]

    @property
    def silent(self) -> bool:
        """Whether neurons outside it are held at zero rather than at their mean responses."""
        return not bool(self.means.any())

    def state(self) -> State:
        return {"mask": self.mask, "means": self.means, "norm": self.norm}

    @staticmethod
    def from_state(state: State, device: torch.device | None = None) -> Subnetwork:
        norm = {name: x.to(device) for name, x in state["norm"].items()}
        return Subnetwork(state["mask"], state["means"].to(device), norm)


def norm_state(body: nn.Module) -> dict[str, Tensor]:
    """A copy of every norm layer: affine parameters and statistics, 4 numbers per neuron."""
    return {
        f"{name}.{key}": value.detach().clone()
        for name, module in body.named_modules()
        if isinstance(module, NORMS)
        for key, value in module.state_dict().items()
    }


@torch.no_grad()
def load_norm(body: nn.Module, state: dict[str, Tensor]) -> None:
    """Put a task's own norm state in place."""
    for name, value in state.items():
        module, _, key = name.rpartition(".")
        getattr(body.get_submodule(module), key).copy_(value)


def silenced(subnetwork: Subnetwork, neurons: Neurons) -> Subnetwork:
    """The same with neurons outside it that say nothing: responses 0, and norm layers that turn them into 0."""
    norm = {name: value.clone() for name, value in subnetwork.norm.items()}
    for owned in neurons.owned:
        if owned.role == "norm":
            norm[owned.name][~subnetwork.mask[owned.owner]] = 0
    return Subnetwork(subnetwork.mask, torch.zeros_like(subnetwork.means), norm)


@contextmanager
def norm_of(body: nn.Module, subnetwork: Subnetwork) -> Iterator[None]:
    """The body has the task's norm layers inside the block."""
    before = norm_state(body)
    load_norm(body, subnetwork.norm)
    try:
        yield
    finally:
        load_norm(body, before)


@contextmanager
def masked(body: nn.Module, neurons: Neurons, subnetwork: Subnetwork) -> Iterator[None]:
    """The body is the task's subnetwork inside the block: its norm state, constants for every other neuron."""
    with norm_of(body, subnetwork), ablated(neurons, subnetwork.mask, subnetwork.means):
        yield


@dataclass(frozen=True, eq=False)
class Read:
    """The part of a weight tensor that a task depends on: rows of its neurons and, in them, some columns."""

    owned: Owned
    rows: Entries
    columns: Entries | None  # None: all of them, or a bias

    @property
    def weights(self) -> Tensor:
        rows = self.owned.tensor.detach()[self.rows]
        return rows if self.columns is None else rows[:, self.columns]

    @property
    def entries(self) -> Entries:
        """True for what is read, (rows,) of a bias and (rows, columns) of other tensors."""
        columns = torch.ones(self.owned.tensor.shape[1:2], dtype=torch.bool) if self.columns is None else self.columns
        return self.rows if self.owned.tensor.ndim == 1 else self.rows[:, None] & columns


def reads(
    body: nn.Module, head: nn.Linear, neurons: Neurons, subnetwork: Subnetwork, shape: tuple[int, int, int]
) -> list[Read]:
    """Every weight the subnetwork depends on, one part per tensor of `own_weights`.

    A neuron outside it that is held at its mean passes a constant through the columns that read it, so rows are needed
    whole. One that is silent passes nothing: a later task may train those columns.
    """
    silent: dict[nn.Module, Entries] = {}
    if subnetwork.silent:
        with torch.no_grad(), norm_of(body, subnetwork):
            _, links = compact(body, head, neurons, subnetwork.mask, subnetwork.means, shape)
        for link in links:
            if link.silent is not None:
                before = silent.get(link.dense, torch.tensor(True))  # a layer may be called twice
                silent[link.dense] = before & link.silent.cpu()
    return [
        Read(owned, subnetwork.mask[owned.owner], ~free if owned.attribute == "weight" and free is not None else None)
        for owned in own_weights(neurons)
        for free in [silent.get(owned.module)]
    ]


@dataclass(frozen=True)
class Certificate:
    """Fingerprints of everything a task's answers are computed from, taken when it was learned.

    ``tensors`` is a hash of everything the subnetwork reads, the same on every machine. ``logits`` is a hash of its
    answers to probe images made from a seed, bit for bit the same on such a machine at this number of threads.
    ``evidence`` are the hashes of `evidence_hashes`: what it brings to answers without the task.
    """

    tensors: str
    logits: str
    threads: int
    seed: int  # of the probe images
    machine: str = ""  # what adds in which order besides: instructions and version of PyTorch
    evidence: tuple[str, ...] = ()  # none: no statistics are kept, or an snv wrote it that did not certify them

    def state(self) -> State:
        return asdict(self) | {"evidence": list(self.evidence)}

    @staticmethod
    def from_state(state: State) -> Certificate:
        return Certificate(**state | {"evidence": tuple(state.get("evidence", ()))})

    def without_specialist(self, s: int) -> Certificate:
        """The same once specialist s is gone, and with it the class means in its features."""
        place = len(EVIDENCE) + s
        return replace(self, evidence=self.evidence[:place] + self.evidence[place + 1 :])


EVIDENCE = ("energy", "rotation", "covariance")
"""The parts of a task's statistics that come before its class means."""


def evidence_hashes(statistics: Statistics, specialists: Sequence[str]) -> tuple[str, ...]:
    """A hash of each part of a task's statistics; ``specialists`` are the ``tensors`` of certificates 0 … t.

    Means say nothing without the features they were measured in, so they are hashed together with their specialist.
    """
    own = (_hash(getattr(statistics, name)) for name in EVIDENCE)
    means = (_hash(mean, of=specialist) for mean, specialist in zip(statistics.means, specialists, strict=False))
    return (*own, *means)


def changed_evidence(issued: Sequence[str], now: Sequence[str]) -> list[str]:
    """The names of the parts that are not what they were; specialists are counted from 1."""
    names = (*EVIDENCE, *(f"class means in task {s + 1}" for s in range(max(len(issued), len(now)))))
    pairs = zip_longest(issued, now)
    return [name for name, (then, found) in zip(names, pairs, strict=False) if then != found]


@torch.inference_mode()
def certify(
    body: nn.Module,
    head: nn.Linear,
    neurons: Neurons,
    subnetwork: Subnetwork,
    read: list[Read],
    shape: tuple[int, ...],
    seed: int,
) -> Certificate:
    """The fingerprints of a task's subnetwork, which `reads` these weights, as it is now."""
    logits = probe_logits(body, head, neurons, subnetwork, shape, seed)
    tensors = tensor_hash(head, read, subnetwork)
    return Certificate(tensors, _hash(logits), torch.get_num_threads(), seed, machine_of(logits.device))


def machine_of(device: torch.device) -> str:
    """Where sums come out the same to the last bit, as far as one can know."""
    kind = torch.cuda.get_device_name(device) if device.type == "cuda" else torch.backends.cpu.get_cpu_capability()
    return f"torch {torch.__version__}, {device.type} {kind}"


def probe_logits(
    body: nn.Module, head: nn.Linear, neurons: Neurons, subnetwork: Subnetwork, shape: tuple[int, ...], seed: int
) -> Logits:
    """Answers to images that nobody has to store: they follow from the seed."""
    device = head.weight.device
    probes = torch.randn(N_PROBES, *shape, generator=generator(seed, "probe images")).to(device)
    modes = [(module, module.training) for module in body.modules()]
    body.eval()
    try:
        with masked(body, neurons, subnetwork):
            logits: Logits = head(body(probes))
            return logits
    finally:
        for module, mode in modes:
            module.training = mode


def tensor_hash(head: nn.Linear, read: list[Read], subnetwork: Subnetwork) -> str:
    """Of the weights the task reads, its norm state, constants, mask and head."""
    norm = [subnetwork.norm[name] for name in sorted(subnetwork.norm)]
    weights = [part.weights for part in read]
    return _hash(*weights, *norm, subnetwork.means, subnetwork.mask, head.weight, head.bias)


def _hash(*tensors: Tensor, of: str = "") -> str:
    """Of shapes, types and bits, and of whatever else they belong to."""
    digest = hashlib.blake2b(of.encode(), digest_size=16)
    for tensor in tensors:
        plain = tensor.detach().cpu().contiguous()
        digest.update(f"{plain.dtype} {tuple(plain.shape)}".encode())
        digest.update(plain.flatten().view(torch.uint8).numpy().tobytes() if plain.numel() else b"")
    return digest.hexdigest()

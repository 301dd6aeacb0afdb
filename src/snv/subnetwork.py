"""A task's neurons as a network of their own: masked (bit-exact), and the proof that it never changes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from snv.files import State
from snv.flow import NORMS
from snv.masks import own_weights
from snv.neurons import Neurons
from snv.seeding import generator
from snv.shapes import Logits, Mask
from snv.valuation.ablation import ablated

N_PROBES = 16


@dataclass(frozen=True, eq=False)
class Subnetwork:
    """What a task needs besides frozen weights and its head: which neurons, constants for the rest, norm state."""

    mask: Mask
    means: Tensor
    norm: dict[str, Tensor]

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


@contextmanager
def masked(body: nn.Module, neurons: Neurons, subnetwork: Subnetwork) -> Iterator[None]:
    """The body is the task's subnetwork inside the block: its norm state, constants for every other neuron."""
    before = norm_state(body)
    load_norm(body, subnetwork.norm)
    try:
        with ablated(neurons, subnetwork.mask, subnetwork.means):
            yield
    finally:
        load_norm(body, before)


@dataclass(frozen=True)
class Certificate:
    """Two fingerprints taken when a task was frozen.

    ``tensors`` is a hash of everything the subnetwork reads, the same on every machine. ``logits`` is a hash of its
    answers to probe images made from a seed, bit for bit the same on such a machine at this number of threads.
    """

    tensors: str
    logits: str
    threads: int
    seed: int  # of the probe images
    machine: str = ""  # what adds in which order besides: instructions and version of PyTorch


@torch.inference_mode()
def certify(
    body: nn.Module, head: nn.Linear, neurons: Neurons, subnetwork: Subnetwork, shape: tuple[int, ...], seed: int
) -> Certificate:
    """The fingerprints of a task's subnetwork as it is now."""
    logits = probe_logits(body, head, neurons, subnetwork, shape, seed)
    tensors = tensor_hash(head, neurons, subnetwork)
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


def tensor_hash(head: nn.Linear, neurons: Neurons, subnetwork: Subnetwork) -> str:
    """Of whole weight rows of the task's neurons, its norm state, constants, mask and head."""
    rows = [owned.tensor.detach()[subnetwork.mask[owned.owner]] for owned in own_weights(neurons)]
    norm = [subnetwork.norm[name] for name in sorted(subnetwork.norm)]
    return _hash(*rows, *norm, subnetwork.means, subnetwork.mask, head.weight, head.bias)


def _hash(*tensors: Tensor) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for tensor in tensors:
        plain = tensor.detach().cpu().contiguous()
        digest.update(f"{plain.dtype} {tuple(plain.shape)}".encode())
        digest.update(plain.flatten().view(torch.uint8).numpy().tobytes() if plain.numel() else b"")
    return digest.hexdigest()

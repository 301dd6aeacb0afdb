"""The proof that a task never changes: fingerprints of all it reads, of its answers, of its evidence."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import zip_longest

import torch
from torch import Tensor, nn

from snv.files import State
from snv.neurons import Neurons
from snv.seeding import generator
from snv.shapes import Logits
from snv.subnetworks.common import Common, CommonTask
from snv.subnetworks.reads import Read
from snv.subnetworks.rules import Statistics
from snv.subnetworks.subnetwork import Subnetwork, masked

N_PROBES = 16
MOST_THREADS = 1024
"""A machine has."""


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
        evidence = tuple(state.get("evidence", ()))
        older = evidence[1:2] == (UNTURNED,)
        if not (isinstance(state.get("threads"), int) and 1 <= state["threads"] <= MOST_THREADS):
            raise ValueError(f"a certificate names {state.get('threads')!r} threads")
        return Certificate(**state | {"evidence": evidence[:1] + evidence[2:] if older else evidence})

    def without_specialist(self, s: int) -> Certificate:
        """The same once specialist s is gone, and with it the class means in its features."""
        place = len(EVIDENCE) + s
        return replace(self, evidence=self.evidence[:place] + self.evidence[place + 1 :])


EVIDENCE = ("energy", "covariance")
"""The parts of a task's statistics that come before its class means."""
ANSWERS = 2
"""How answers are computed. Once features of the common space were rounded before a head was asked; a certificate from
then holds for the weights, and its answers are not compared bit by bit."""
UNTURNED = "0487d78248da85bd731c20ad038bec42"
"""What older certificates have in second place: the hash of (0, 1), which stood for rotations that nobody trained."""


def evidence_hashes(statistics: Statistics, specialists: Sequence[str]) -> tuple[str, ...]:
    """A hash of each part of a task's statistics; ``specialists`` are the ``tensors`` of certificates 0 … t.

    Means say nothing without the features they were measured in, so they are hashed together with their specialist.
    """
    own = (_hash(getattr(statistics, name)) for name in EVIDENCE)
    means = (_hash(mean, of=specialist) for mean, specialist in zip(statistics.means, specialists, strict=False))
    return (*own, *means)


def common_hashes(part: CommonTask) -> tuple[str, ...]:
    """What a task brings to answers without the task, where there is a common space; each hash after its name."""
    sums = [] if part.classes is None else [part.classes.counts, part.classes.sums, part.classes.products]
    return f"class sums: {_hash(*sums)}", f"weights of opinions: {_hash(part.open_weights)}"


def changed_evidence(issued: Sequence[str], now: Sequence[str]) -> list[str]:
    """The names of the parts that are not what they were; specialists are counted from 1."""
    names = (*EVIDENCE, *(f"class means in task {s + 1}" for s in range(max(len(issued), len(now)))))
    if any(": " in part for part in issued):
        names = tuple(part.split(": ")[0] for part in issued)
    pairs = zip_longest(issued, now)
    return [name for name, (old, new) in zip(names, pairs, strict=False) if old != new]


@torch.inference_mode()
def certify(
    body: nn.Module,
    head: nn.Linear,
    neurons: Neurons,
    subnetwork: Subnetwork,
    read: list[Read],
    shape: tuple[int, ...],
    seed: int,
    common: Common | None = None,
    t: int = 0,
) -> Certificate:
    """The fingerprints of a task's subnetwork, which `reads` these weights, as it is now."""
    logits = probe_logits(body, head, neurons, subnetwork, shape, seed, common, t)
    tensors = tensor_hash(head, neurons, subnetwork, read)
    if common is not None:
        part, space = common.tasks[t], common.space.state_dict()
        tensors = _hash(*space.values(), part.head.weight, part.head.bias, part.weights, of=tensors)
    return Certificate(tensors, _hash(logits), torch.get_num_threads(), seed, machine_of(logits.device))


def machine_of(device: torch.device) -> str:
    """Where sums come out the same to the last bit, as far as one can know."""
    kind = torch.cuda.get_device_name(device) if device.type == "cuda" else torch.backends.cpu.get_cpu_capability()
    return f"torch {torch.__version__}, {device.type} {kind}, answers {ANSWERS}"


def probe_logits(
    body: nn.Module,
    head: nn.Linear,
    neurons: Neurons,
    subnetwork: Subnetwork,
    shape: tuple[int, ...],
    seed: int,
    common: Common | None = None,
    t: int = 0,
) -> Logits:
    """Answers to images that nobody has to store: they follow from the seed. ``common``: where task t has its part."""
    device = head.weight.device
    probes = torch.randn(N_PROBES, *shape, generator=generator(seed, "probe images")).to(device)
    modes = [(module, module.training) for module in body.modules()]
    body.eval()
    try:
        with masked(body, neurons, subnetwork):
            logits: Logits = head(body(probes))
            return logits if common is None else common.answer(logits, common.features(probes), t)
    finally:
        for module, mode in modes:
            module.training = mode


def tensor_hash(head: nn.Linear, neurons: Neurons, subnetwork: Subnetwork, read: list[Read]) -> str:
    """Of the weights the task reads, its norm state, the zeros of silent neurons, mask and head."""
    norm = [subnetwork.norm[name] for name in sorted(subnetwork.norm)]
    weights = [part.weights for part in read]
    silence = torch.zeros(neurons.n_responses)  # once stored, and part of every certificate since
    return _hash(*weights, *norm, silence, subnetwork.mask, head.weight, head.bias)


def _hash(*tensors: Tensor, of: str = "") -> str:
    """Of shapes, types and bits, and of whatever else they belong to."""
    digest = hashlib.blake2b(of.encode(), digest_size=16)
    for tensor in tensors:
        plain = tensor.detach().cpu().contiguous()
        digest.update(f"{plain.dtype} {tuple(plain.shape)}".encode())
        digest.update(plain.flatten().view(torch.uint8).numpy().tobytes() if plain.numel() else b"")
    return digest.hexdigest()
